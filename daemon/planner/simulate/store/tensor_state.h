// Where a tensor lies, where it is going, and what has been asked of it (store.h draws the ways between).
#pragma once

#include <cstdint>

#include "daemon/planner/simulate/program.h"

namespace terrace::planner {

enum class Place : std::uint8_t { nowhere, here, coming, leaving, away };

struct TensorState {
  std::uint64_t stored = 0;  // bytes of the far copy, or of the coded one here
  std::uint64_t asked = 0;   // queued_out: bytes that the request will take in asked_tier
  std::uint32_t asked_tier = 0, asked_codec = no_codec;
  std::uint32_t asked_by = 0;  // queued_out: the request's node
  std::uint32_t tier = 0;      // of the far copy, or where it is going
  std::uint32_t codec = no_codec;
  Place place = Place::nowhere;
  bool queued_in = false, queued_out = false;
  bool asked_on_demand = false;  // the request that waits
  bool on_demand = false;        // the transfer under way
  bool coded = false;            // here, but to be decompressed
  bool pinned = false;           // named by the current run
  bool written = false;          // by the current run
  bool departed = false;         // away, and its memory here still in use
  bool copied = false;           // here, and `stored` bytes of it in `tier` are valid
  bool asked_clean = false;      // queued_out, to where its copy is, or will be once it has come
  bool needed = false;           // the current run waits for its fetch to start
  bool queued_aside = false;     // waits to move on to another far tier
  bool aside = false;            // away in `tier`, and moving on to `aside_tier`
  std::uint32_t aside_tier = 0;
};

}  // namespace terrace::planner
