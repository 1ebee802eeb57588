// The log as systemd's journal takes it from standard error: each line begins with its priority, "<4>no
// pool…" (sd-daemon(3)), which `journalctl -p warning` selects by. The journal adds the time and the
// program's name.
#pragma once

#include <spdlog/formatter.h>

#include <memory>

namespace terrace::daemon {

// Whether the descriptor is the journal's, by what systemd says of it in JOURNAL_STREAM ("DEVICE:INODE", may
// be null; systemd.exec(5)). A program inherits the variable and may have another standard error.
bool is_journal(int fd, const char* journal_stream);

// One line for each message; any thread may use its own clone.
std::unique_ptr<spdlog::formatter> journal_lines();

}  // namespace terrace::daemon
