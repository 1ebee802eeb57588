// Which word was meant by one that is none: for verbs, options and columns that were mistyped.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace terrace::cli {

// How many letters were left out, put in, exchanged, or swapped with their neighbour ("optimal string
// alignment"; Boytsov, "Indexing methods for approximate dictionary searching", 2011). Time and memory grow
// with the product of both lengths.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The word of least distance, the first of several; "" where more than a third of the letters are wrong,
// since then nobody can tell.
std::string nearest_word(std::string_view given, const std::vector<std::string>& words);

// For a sentence that goes on behind it: "; did you mean 'status'?", or ";".
std::string did_you_mean(std::string_view given, const std::vector<std::string>& words);

}  // namespace terrace::cli
