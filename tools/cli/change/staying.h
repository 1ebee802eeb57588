// Why a job that is to be paused keeps memory: what `terrace pause` waits for, and what it says of a job that
// it gives up on. Pure, over the job as its daemon shows it (docs/formats/wire.md has the fields).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace terrace::cli {

// A counter of one session, in the units that its name says; 0: the session has not reported it.
std::uint64_t counter_of(const nlohmann::json& session, const char* name);
// An offload engine or an optimizer, not a pager.
bool is_engine(const nlohmann::json& session);
// The session has heard of its grant and obeys it: it holds no more than that.
bool is_at_floor(const nlohmann::json& session);

// "14.0 MiB of its memory do not leave: …": of the first session that keeps more than its grant the reason,
// and what helps.
std::string why_it_stays(const nlohmann::json& job);

}  // namespace terrace::cli
