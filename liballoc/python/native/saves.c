/* terrace_saves: what terrace.torch does for each saved tensor and can do sooner in C. Looking at a tensor
 * asks a dozen of its attributes, and ctypes takes as long for a call as the engine does for a small tensor.
 *
 * - look_for(...): a function that looks at a tensor, as terrace/torch/look.py does (and gives the reasons).
 * - function(address): calls int f(uint64_t, ...) there, 1 to 4 arguments, without the interpreter's lock.
 * - save(address): calls terrace_offload_store_left() there.
 *
 * Only Python's stable ABI is used, and PyTorch through Python, so that one build serves every version of
 * both. Where it is missing or cannot be loaded the package does without. Errors are Python's exceptions; of
 * PyTorch's own, those that say "this tensor has no memory" mean that it is left alone. */
#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "liballoc/gpu/terrace_gpu.h"

enum { bytes_of_kind = 255, complex_kind = 256 }; /* what look_for()'s dictionary says of an element's type */

static struct {
  PyObject *base, *device, *dtype, *is_leaf, *is_neg, *is_conj, *is_nested, *layout, *requires_grad, *size,
      *storage_offset, *stride, *data_ptr;
} names;

/* ---- What a tensor says. NULL, -1, false with an exception on failure. ---- */

static PyObject* ask(PyObject* of, PyObject* method) { return PyObject_CallMethodObjArgs(of, method, NULL); }

static bool says(PyObject* answer, int* out) {
  if (answer == NULL) return false;
  *out = PyObject_IsTrue(answer);
  Py_DECREF(answer);
  return *out >= 0;
}

/* 1: a leaf that requires a gradient, as a parameter is; 0; or -1. */
static int is_parameter(PyObject* tensor) {
  int yes = 0;
  if (!says(PyObject_GetAttr(tensor, names.requires_grad), &yes)) return -1;
  if (yes == 0) return 0;
  return says(PyObject_GetAttr(tensor, names.is_leaf), &yes) ? yes : -1;
}

/* ---- look(tensor): look_for()'s arguments, as a tuple, are its `self`. ---- */

enum { at_device, at_layout, at_kinds, at_storage_of, at_least_bytes };

struct seen {
  PyObject *tensor, *dtype, *root, *size, *stride, *storage, *address, *offset, *bits, *begin, *end;
  Py_ssize_t kind, elements, span; /* span: in elements */
  int contiguous;
};

/* 1: it may be offloaded. 0: it is left alone. -1. */
static int is_of_the_kind(PyObject* rules, struct seen* seen) {
  PyObject* layout = PyObject_GetAttr(seen->tensor, names.layout);
  if (layout == NULL) return -1;
  Py_DECREF(layout); /* it is one of PyTorch's own, which stay */
  if (layout != PyTuple_GetItem(rules, at_layout)) return 0;
  PyObject* device = PyObject_GetAttr(seen->tensor, names.device);
  if (device == NULL) return -1;
  const int here = PyObject_RichCompareBool(device, PyTuple_GetItem(rules, at_device), Py_EQ);
  Py_DECREF(device);
  if (here <= 0) return here;
  if ((seen->dtype = PyObject_GetAttr(seen->tensor, names.dtype)) == NULL) return -1;
  PyObject* kind = PyDict_GetItemWithError(PyTuple_GetItem(rules, at_kinds), seen->dtype);
  if (kind == NULL) return PyErr_Occurred() == NULL ? 0 : -1;
  seen->kind = PyLong_AsSsize_t(kind);
  int nested = 0;
  return says(PyObject_GetAttr(seen->tensor, names.is_nested), &nested) ? !nested : -1;
}

/* Elements; those from the first to the end of the last; and whether that is all of them, in order: a
 * dimension of one element may have any stride. */
static bool measure(struct seen* seen) {
  Py_ssize_t elements = 1, last = 0;
  seen->contiguous = 1;
  for (Py_ssize_t i = PyTuple_Size(seen->size); i-- > 0;) {
    const Py_ssize_t size = PyLong_AsSsize_t(PyTuple_GetItem(seen->size, i));
    const Py_ssize_t stride = PyLong_AsSsize_t(PyTuple_GetItem(seen->stride, i));
    if (size != 1 && stride != elements) seen->contiguous = 0;
    elements *= size;
    last += (size - 1) * stride;
  }
  seen->elements = elements;
  seen->span = elements == 0 ? 0 : last + 1;
  return PyErr_Occurred() == NULL;
}

static int has_size_and_root(PyObject* rules, struct seen* seen) {
  if ((seen->root = PyObject_GetAttr(seen->tensor, names.base)) == NULL) return -1;
  if ((seen->size = ask(seen->tensor, names.size)) == NULL) return -1;
  if ((seen->stride = ask(seen->tensor, names.stride)) == NULL) return -1;
  if (!measure(seen)) return -1;
  const Py_ssize_t least = PyLong_AsSsize_t(PyTuple_GetItem(rules, at_least_bytes));
  const bool is_root = seen->root == Py_None;
  if (is_root && seen->contiguous && seen->elements * (seen->kind & bytes_of_kind) < least) return 0;
  const int parameter = is_parameter(seen->tensor);
  if (parameter != 0) return parameter < 0 ? -1 : 0;
  if (is_root) {
    Py_DECREF(seen->root);
    seen->root = Py_NewRef(seen->tensor);
    return 1;
  }
  if (Py_TYPE(seen->root) != Py_TYPE(seen->tensor)) return 0;
  const int view_of_one = is_parameter(seen->root);
  return view_of_one < 0 ? -1 : !view_of_one;
}

static int has_memory(PyObject* rules, struct seen* seen) {
  seen->storage = PyObject_CallFunctionObjArgs(PyTuple_GetItem(rules, at_storage_of), seen->tensor, NULL);
  if (seen->storage != NULL) seen->address = ask(seen->storage, names.data_ptr);
  if (seen->address != NULL) return PyObject_IsTrue(seen->address);
  if (!PyErr_ExceptionMatches(PyExc_RuntimeError)) return -1; /* NotImplementedError is one */
  PyErr_Clear(); /* a wrapper of vmap or grad, or a tensor of another kind */
  return 0;
}

static int has_place(struct seen* seen) {
  int conjugate = 0, negative = 0;
  if ((seen->offset = ask(seen->tensor, names.storage_offset)) == NULL) return -1;
  if (!says(ask(seen->tensor, names.is_neg), &negative)) return -1;
  if ((seen->kind & complex_kind) != 0 && !says(ask(seen->tensor, names.is_conj), &conjugate)) return -1;
  if ((seen->bits = PyLong_FromLong(conjugate | negative << 1)) == NULL) return -1;
  const Py_ssize_t item = seen->kind & bytes_of_kind;
  const Py_ssize_t begin = PyLong_AsSsize_t(seen->offset) * item;
  if ((seen->begin = PyLong_FromSsize_t(begin)) == NULL) return -1;
  return (seen->end = PyLong_FromSsize_t(begin + seen->span * item)) == NULL ? -1 : 1;
}

static void forget(struct seen* seen) {
  PyObject* all[] = {seen->dtype,   seen->root,   seen->size, seen->stride, seen->storage,
                     seen->address, seen->offset, seen->bits, seen->begin,  seen->end};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) Py_XDECREF(all[i]);
}

static PyObject* look(PyObject* rules, PyObject* tensor) {
  struct seen seen = {.tensor = tensor};
  int verdict = is_of_the_kind(rules, &seen);
  if (verdict == 1) verdict = has_size_and_root(rules, &seen);
  if (verdict == 1) verdict = has_memory(rules, &seen);
  if (verdict == 1) verdict = has_place(&seen);
  PyObject* result = verdict == 0 ? Py_NewRef(Py_None) : NULL;
  if (verdict == 1) {
    PyObject* geometry = PyTuple_Pack(5, seen.size, seen.stride, seen.offset, seen.dtype, seen.bits);
    if (geometry != NULL)
      result = PyTuple_Pack(6, seen.root, seen.storage, seen.address, geometry, seen.begin, seen.end);
    Py_XDECREF(geometry);
  }
  forget(&seen);
  return result;
}

static PyMethodDef look_method = {"look", look, METH_O, NULL};

static PyObject* look_for(PyObject* module, PyObject* rules) {
  (void)module;
  if (!PyTuple_Check(rules) || PyTuple_Size(rules) != 5 || !PyDict_Check(PyTuple_GetItem(rules, at_kinds))) {
    PyErr_SetString(PyExc_TypeError,
                    "look_for() takes device, layout, dictionary of types, storage_of, least bytes");
    return NULL;
  }
  return PyCFunction_NewEx(&look_method, rules, NULL);
}

/* ---- The engine's functions. Their address, as a Python int, is `self`. ---- */

enum { most_arguments = 4 };

/* None is NULL, and the default stream. */
static uint64_t number(PyObject* argument) {
  return argument == Py_None ? 0 : PyLong_AsUnsignedLongLongMask(argument);
}

static PyObject* call(PyObject* address, PyObject* const* arguments, Py_ssize_t count) {
  uint64_t values[most_arguments] = {0};
  if (count < 1 || count > most_arguments) {
    PyErr_SetString(PyExc_TypeError, "the engine's functions take 1 to 4 arguments");
    return NULL;
  }
  for (Py_ssize_t i = 0; i < count; ++i) values[i] = number(arguments[i]);
  const uintptr_t at = PyLong_AsUnsignedLongLongMask(address);
  if (PyErr_Occurred() != NULL) return NULL;
  int code = 0;
  PyThreadState* const others = PyEval_SaveThread();
  if (count == 1) code = ((int (*)(uint64_t))at)(values[0]);
  if (count == 2) code = ((int (*)(uint64_t, uint64_t))at)(values[0], values[1]);
  if (count == 3) code = ((int (*)(uint64_t, uint64_t, uint64_t))at)(values[0], values[1], values[2]);
  if (count == 4)
    code = ((int (*)(uint64_t, uint64_t, uint64_t, uint64_t))at)(values[0], values[1], values[2], values[3]);
  PyEval_RestoreThread(others);
  return PyLong_FromLong(code);
}

typedef int (*store_left_function)(terrace_offload*, const struct terrace_offload_tensor*, void*, uint64_t*);

static PyObject* save_call(PyObject* address, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 6) {
    PyErr_SetString(PyExc_TypeError, "save() takes handle, data, bytes, element, site and stream");
    return NULL;
  }
  uint64_t values[6];
  for (Py_ssize_t i = 0; i < count; ++i) values[i] = number(arguments[i]);
  const store_left_function store_left =
      (store_left_function)(uintptr_t)PyLong_AsUnsignedLongLongMask(address);
  if (PyErr_Occurred() != NULL) return NULL;
  const struct terrace_offload_tensor tensor = {.size = sizeof(tensor),
                                                .data = (const void*)(uintptr_t)values[1],
                                                .bytes = values[2],
                                                .element = (enum terrace_element)values[3],
                                                .site = values[4]};
  uint64_t id = 0;
  PyThreadState* const others = PyEval_SaveThread();
  const int code =
      store_left((terrace_offload*)(uintptr_t)values[0], &tensor, (void*)(uintptr_t)values[5], &id);
  PyEval_RestoreThread(others);
  return PyLong_FromLongLong(code < 0 ? code : (long long)(id << 1 | (code == 1)));
}

static PyMethodDef call_method = {"call", (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL};
static PyMethodDef save_method = {"save", (PyCFunction)(void (*)(void))save_call, METH_FASTCALL, NULL};

static PyObject* function(PyObject* module, PyObject* address) {
  (void)module;
  return PyCFunction_NewEx(&call_method, address, NULL);
}

static PyObject* save(PyObject* module, PyObject* address) {
  (void)module;
  return PyCFunction_NewEx(&save_method, address, NULL);
}

/* ---- The module ---- */

static PyMethodDef methods[] = {
    {"look_for", look_for, METH_O,
     "look_for((device, layout, {dtype: bytes | 256 if complex}, storage_of, least)): look(tensor)"},
    {"function", function, METH_O, "function(address): f(integers or None) -> int"},
    {"save", save, METH_O,
     "save(address of store_left): f(handle, data, bytes, element, site, stream) -> id << 1 | left, or "
     "-errno"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "terrace_saves", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_terrace_saves(void) {
  const struct {
    PyObject** name;
    const char* text;
  } all[] = {{&names.base, "_base"},
             {&names.device, "device"},
             {&names.dtype, "dtype"},
             {&names.is_leaf, "is_leaf"},
             {&names.is_neg, "is_neg"},
             {&names.is_conj, "is_conj"},
             {&names.is_nested, "is_nested"},
             {&names.layout, "layout"},
             {&names.requires_grad, "requires_grad"},
             {&names.size, "size"},
             {&names.storage_offset, "storage_offset"},
             {&names.stride, "stride"},
             {&names.data_ptr, "data_ptr"}};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i)
    if ((*all[i].name = PyUnicode_InternFromString(all[i].text)) == NULL) return NULL;
  return PyModule_Create(&definition);
}
