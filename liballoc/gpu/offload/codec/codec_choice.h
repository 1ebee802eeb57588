// Which codec pays for a tensor that the host cannot look into: decided from what the frames of tensors like
// it came to. The advisor of compression/ goes by a sample of the content, which in a GPU's memory costs a
// copy; frames are lossless, so the first tensors of a site are simply tried, and measured by being tried.
//
//   never tried here   → try it            (zvc, then zvc_exp)
//   long not tried     → try it again      (contents drift while a network trains)
//   else               → the cheapest, raw among them:
//
//     raw    L + L                         L: the way out, ns a byte (link, or drive where that is slower)
//     codec  max(C, f L) + max(D, f L)     C, D: the codec's ns a byte; f: frame bytes by content bytes
//
// Codec and link work at once on different tensors, hence the maximum (payoff.h, "pipelined"). The way back
// is taken to be as fast as the way out. Where the processors that the codec takes are those that the job
// computes with, as on the emulated device, its time is the job's:
//
//     codec  C + f L + D + f L
//
// Pure. Any thread may call anything.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "compression/codec.h"

namespace terrace::liballoc::offload {

class CodecChoice {
 public:
  static constexpr std::array candidates = {compression::Codec::zvc, compression::Codec::zvc_exp};
  static constexpr std::uint32_t tried_again_after = 64;  // tensors of the class

  enum class Runs : std::uint8_t { beside_the_job, in_its_place };

  explicit CodecChoice(Runs codec = Runs::beside_the_job);

  // `pressed`: the tensor goes on to the drive.
  compression::Codec choose(std::uint64_t tensor_class, bool pressed);
  void compressed(std::uint64_t tensor_class, compression::Codec codec, std::uint64_t content_bytes,
                  std::uint64_t frame_bytes, std::uint64_t ns);
  void decompressed(std::uint64_t tensor_class, compression::Codec codec, std::uint64_t content_bytes,
                    std::uint64_t ns);
  // What the ways took for so many bytes.
  void crossed_link(std::uint64_t bytes, std::uint64_t ns);
  void crossed_drive(std::uint64_t bytes, std::uint64_t ns);

 private:
  struct Tried {
    bool known = false;
    std::uint32_t when = 0;  // stores of the class by then
    double fraction = 1;
    double compress_ns = 0;  // a byte of content, as all here
    double decompress_ns = 0;
  };
  struct Class {
    std::uint32_t stores = 0;
    std::array<Tried, candidates.size()> tried;
  };

  static Tried* find(Class& of, compression::Codec codec);
  double cost(const Tried& tried, double way_ns) const;

  const Runs codec_;
  std::mutex mutex_;
  std::vector<Class> classes_;
  double link_ns_ = 0;  // 0: not known yet
  double drive_ns_ = 0;
};

}  // namespace terrace::liballoc::offload
