// The formulas, over a vector type V that one file for each instruction set defines:
//
//   V::lanes                                    how many floats
//   V::load(float*), (Bf16*), (Half*); store    unaligned; to a narrow type rounded to nearest, ties to even
//   + - * /, fused(a, b, c) = a * b + c rounded once, root(a), larger(a, b) with NaN if either is, negated(a)
//   V::rounds_to(a, (Bf16*), (Half*))           which lanes would be stored as they are there
//   V::select(lanes, a, b)
//
// The order, each line one rounding unless it says "fused" (g gradient, p parameter, m, v, s states):
//
//   g = -g                                   maximize
//   p = p * keep                             decoupled weight decay
//   g = fused(p, l2, g)                      weight decay that is none
//   Adam  m = fused(w, g - m, m)             by_lerp, w = 1 - beta1; from 0.5 on fused(w - 1, g - m, g)
//         m = fused(g, 1 - beta1, m * beta1) else: the product rounded, too
//         v = fused((1 - beta2) * g, g, v * beta2), or with two roundings in place of fused
//         s = larger(s, v)                   AMSGrad; s in place of v below
//         p = p + (step_size * m) / (root(v) / root_correction + eps)
//   SGD   m = g at first, then fused(g, 1 - dampening, m * momentum)
//         p = fused(step_size, m, p), with Nesterov of fused(momentum, m, g) in place of m
//
// What is left behind the last whole vector is computed in a vector, too, padded with zeros: an element's
// result never depends on its place. Denormals are kept; which NaN comes of several is not said.
//
// Included into a namespace of each file, behind what it uses (cstring, type_traits, kernels.h): the linker
// must not join code for different instructions.

struct Bf16 {
  std::uint16_t bits;
};
struct Half {
  std::uint16_t bits;
};

template <class V>
V adam_step(const Rule& rule, V p, V g, float* const* planes, std::size_t i) {
  const auto all = [](float value) { return V::all(value); };
  V m = V::load(planes[0] + i);
  V v = V::load(planes[1] + i);
  const V weight = all(rule.average_new);
  if (rule.by_lerp)
    m = fused(weight, g - m, rule.complement ? g : m);
  else
    m = fused(g, weight, m * all(rule.average_old));
  const V scaled = all(rule.square_new) * g;
  v = v * all(rule.square_old);
  v = rule.fused_square ? fused(scaled, g, v) : v + scaled * g;
  m.store(planes[0] + i);
  v.store(planes[1] + i);
  if (rule.amsgrad) {
    v = larger(V::load(planes[2] + i), v);
    v.store(planes[2] + i);
  }
  const V denominator = root(v) / all(rule.root_correction) + all(rule.eps);
  return p + (all(rule.step_size) * m) / denominator;
}

template <class V>
V sgd_step(const Rule& rule, V p, V g, float* const* planes, std::size_t i) {
  V m = g;
  if (!rule.first) m = fused(g, V::all(rule.average_new), V::load(planes[0] + i) * V::all(rule.average_old));
  m.store(planes[0] + i);
  if (rule.nesterov) m = fused(m, V::all(rule.momentum), g);
  return fused(m, V::all(rule.step_size), p);
}

template <class V, bool is_sgd, class P, class G>
void step_at(const Rule& rule, P* parameter, const G* gradient, float* const* planes, std::size_t i) {
  constexpr bool has_master = !std::is_same_v<P, float>;
  float* const master = has_master ? planes[is_sgd ? 1 : 2 + (rule.amsgrad ? 1 : 0)] : nullptr;
  V p = V::load(parameter + i);
  if constexpr (has_master) {
    const V kept = V::load(master + i);
    p = V::select(V::rounds_to(kept, parameter + i), kept, p);
  }
  V g = V::load(gradient + i);
  if (rule.maximize) g = negated(g);
  p = p * V::all(rule.keep);
  if (rule.has_l2) g = fused(p, V::all(rule.l2), g);
  p = is_sgd ? sgd_step<V>(rule, p, g, planes, i) : adam_step<V>(rule, p, g, planes, i);
  if constexpr (has_master) p.store(master + i);
  p.store(parameter + i);
}

template <class V, bool is_sgd, class P, class G>
void step_rest(const Rule& rule, const Piece& piece, std::size_t from) {
  const std::size_t rest = piece.elements - from;
  P parameter[V::lanes] = {};
  G gradient[V::lanes] = {};
  float copies[max_planes][V::lanes] = {};
  float* planes[max_planes];
  std::memcpy(parameter, static_cast<const P*>(piece.parameter) + from, rest * sizeof(P));
  std::memcpy(gradient, static_cast<const G*>(piece.gradient) + from, rest * sizeof(G));
  for (unsigned k = 0; k < max_planes; ++k) {
    planes[k] = copies[k];
    if (piece.planes[k] != nullptr) std::memcpy(copies[k], piece.planes[k] + from, rest * sizeof(float));
  }
  step_at<V, is_sgd>(rule, parameter, gradient, planes, 0);
  std::memcpy(static_cast<P*>(piece.parameter) + from, parameter, rest * sizeof(P));
  for (unsigned k = 0; k < max_planes; ++k)
    if (piece.planes[k] != nullptr) std::memcpy(piece.planes[k] + from, copies[k], rest * sizeof(float));
}

// The processor does so by itself, but not across pages, and with so many streams it is late: 4% on Zen 5.
// Past the end it fetches what is of no use, and cannot fault.
template <class P, class G>
void fetch_ahead(const P* parameter, const G* gradient, float* const* planes, unsigned count, std::size_t i) {
  constexpr std::size_t distance = 512;  // elements; 256 gains less
  __builtin_prefetch(parameter + distance, 1);
  __builtin_prefetch(gradient + distance, 0);
  for (unsigned k = 0; k < count; ++k) __builtin_prefetch(planes[k] + i + distance, 1);
}

template <class V, bool is_sgd, class P, class G>
void update(const Rule& from, const Piece& piece) {
  const Rule rule = from;  // known not to be written to by what is stored
  float* const planes[max_planes] = {piece.planes[0], piece.planes[1], piece.planes[2], piece.planes[3]};
  auto* const parameter = static_cast<P*>(piece.parameter);
  const auto* const gradient = static_cast<const G*>(piece.gradient);
  const unsigned count = (is_sgd ? 1 : rule.amsgrad ? 3 : 2) + (std::is_same_v<P, float> ? 0 : 1);
  std::size_t i = 0;
  for (; i + V::lanes <= piece.elements; i += V::lanes) {
    fetch_ahead(parameter + i, gradient + i, planes, count, i);
    step_at<V, is_sgd>(rule, parameter, gradient, planes, i);
  }
  if (i < piece.elements) step_rest<V, is_sgd, P, G>(rule, piece, i);
}

template <class V>
constexpr Kernels table_of(const char* name) {
  return {
      .name = name,
      .adam = {{update<V, false, float, float>, update<V, false, float, Bf16>, update<V, false, float, Half>},
               {update<V, false, Bf16, float>, update<V, false, Bf16, Bf16>, update<V, false, Bf16, Half>},
               {update<V, false, Half, float>, update<V, false, Half, Bf16>, update<V, false, Half, Half>}},
      .sgd = {{update<V, true, float, float>, update<V, true, float, Bf16>, update<V, true, float, Half>},
              {update<V, true, Bf16, float>, update<V, true, Bf16, Bf16>, update<V, true, Bf16, Half>},
              {update<V, true, Half, float>, update<V, true, Half, Bf16>, update<V, true, Half, Half>}}};
}
