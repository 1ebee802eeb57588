// A job that sends periods, as tests of the server have it.
#pragma once

#include "daemon/planning/sealed_file.h"
#include "tests/daemon/planning/made_periods.h"
#include "tests/daemon/support.h"

namespace terrace::tests {

inline std::string planned_image(std::string_view policy = "", std::uint64_t period_hash = 0xfeedbeefcafe) {
  const TrainingShape shape{.layers = 16};
  wire::PeriodDraft draft = training_step(shape).draft(
      shape.layers * (shape.activation_bytes + shape.weight_bytes) / 2, policy, 4'000'000'000);
  draft.header.period_hash = period_hash;
  return image_of(draft);
}

inline wire::Period period_message(const std::string& image, std::uint64_t period_hash = 0xfeedbeefcafe) {
  wire::Period message = wire::make<wire::Period>();
  message.phase = 1;
  message.period_hash = period_hash;
  message.image_bytes = image.size();
  return message;
}

inline bool send_period(RawClient& client, const std::string& image,
                        std::uint64_t period_hash = 0xfeedbeefcafe) {
  const auto file = daemon::make_sealed_file(image);
  REQUIRE(file);
  const int fd = file->get();
  return client.send(period_message(image, period_hash), {&fd, 1});
}

}  // namespace terrace::tests
