// A program or library as it lies in memory, seen through its ELF tables: which functions it calls across
// objects, where those calls really go (the slots that the dynamic linker filled in), and whether it carries
// a CUDA runtime of its own. For the self-test; slow, and only asked for by hand.
//
// Source: System V ABI, chapter 5 (dynamic linking), and its x86-64 supplement, 4.4 (relocations).
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace terrace::liballoc::gpu {

struct Import {
  std::string name;
  const void* target;  // what a call reaches now
  bool is_bound;       // false: the linker looks it up at the first call (lazy binding)
};

class LoadedObject {
 public:
  // Inside dl_iterate_phdr(); copies what it keeps, but for the object's own tables, which stay while it is
  // loaded.
  LoadedObject(const dl_phdr_info& info, const std::string& program);

  const std::string& path() const { return path_; }
  std::string file_name() const;
  // Calls through a slot to one of the functions that `wanted` accepts.
  std::vector<Import> imports(bool (*wanted)(const char* name)) const;
  // Whether the object has machine code of its own for the runtime, linked in by cudart_static: the name in
  // its symbol table, or where that was stripped, the names by which every runtime looks the driver up.
  bool contains_cuda_runtime() const;

 private:
  struct Segment {
    const char* begin;
    std::size_t bytes;
    bool writable;
  };
  struct Tables {
    const ElfW(Sym) * symbols = nullptr;
    const char* strings = nullptr;
    std::size_t strings_bytes = 0;
    const ElfW(Rela) * relocations[2] = {};
    std::size_t relocation_bytes[2] = {};
  };

  Tables tables() const;
  const void* absolute(ElfW(Addr) value) const;
  bool holds(const void* address) const;
  bool has_text(const char* text) const;

  std::string path_;
  ElfW(Addr) base_;
  const ElfW(Dyn) * dynamic_ = nullptr;
  std::vector<Segment> segments_;
};

// Whether the file's full symbol table (.symtab) defines a function of that name. False when it was stripped,
// or is no ELF file of this machine.
bool file_defines(const std::string& path, const char* function);

}  // namespace terrace::liballoc::gpu
