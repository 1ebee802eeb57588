// Where a user's programs keep what outlives them, and under which name what is about one drive.
#pragma once

#include <string>

namespace terrace::records {

// What systemd made for a service ($STATE_DIRECTORY), else $XDG_STATE_HOME/terrace, else
// ~/.local/state/terrace; "" where none of it is known. Reads no environment in a program with more privilege
// than its caller.
std::string state_directory();

// Makes `directory` and what is missing above it, for this user alone. 0, or errno: EPERM for one that is
// another user's, or that others may write to.
int make_state_directory(const std::string& directory);

// "writes%2Fvar%2Ftmp": a file's name for the file system that holds `directory`, which is known by where it
// is mounted. "" where that cannot be found.
std::string drive_name(const std::string& directory);

}  // namespace terrace::records
