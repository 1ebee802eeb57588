// Small files of /proc, /sys and cgroups: read whole, written in one go, with errno for an answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace terrace::cli {

// At most 1 MiB; nullopt when the file cannot be opened or read.
std::optional<std::string> read_text(const std::filesystem::path& path);

// The first number in the file; nullopt for "max", an empty file, or none at all.
std::optional<std::uint64_t> read_number(const std::filesystem::path& path);

// The number after `key` in a file of "key value" or "key: value kB" lines; the unit is not applied.
std::optional<std::uint64_t> read_keyed_number(const std::filesystem::path& path, std::string_view key);

// One write(2), as cgroup and sysctl files want it; does not create. 0 or an errno value.
int write_text(const std::filesystem::path& path, std::string_view text);

// Whether what is written there uses the memory that it should save (tmpfs, ramfs).
bool lies_in_memory(const std::filesystem::path& directory);

std::string trimmed(std::string text);

}  // namespace terrace::cli
