// A small file that one program leaves for the next one of the same user: nobody else may read or write it,
// and it is replaced as a whole, so that a reader finds the old one or the new one, whoever was killed
// meanwhile.
//
// What lies in its place is judged before anything of it is believed: a link, a pipe, somebody else's file,
// one with a second name or open to others says nothing. Not thread-safe: one writer at a time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace terrace::records {

struct PrivateFile {
  std::string bytes;
  int error = 0;  // errno: ENOENT, that there is none, or why it cannot be read; EBADMSG: it is none of ours
  std::string problem;  // "" or why there are no bytes, for people
};

// What lies at `path`, at most `most_bytes` of it. Does not wait, whatever lies there.
PrivateFile read_private_file(const std::string& path, std::size_t most_bytes);
// The same of a file that is open, which may have lost its name. The descriptor stays the caller's.
PrivateFile read_private_file(int descriptor, std::size_t most_bytes);

// The machine may fail at once, or the programs only.
enum class Outlives { programs, machine };
// Writes "<path>.new" with mode 0600 and renames it; what a killed writer left there is replaced. 0 or errno,
// and then the old file stands. With Outlives::machine it waits for the drive.
int replace_private_file(const std::string& path, std::string_view bytes, Outlives outlives);

}  // namespace terrace::records
