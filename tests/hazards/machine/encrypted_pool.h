// The same hazards with a pool that is encrypted on its drive: with HAZARD_ENCRYPTED=1 in the environment of
// a test program, its jobs have a terraced whose terraced.toml says [pool] encrypt = "yes" (decision 053),
// and their pool files are that daemon's.
//
// The pool lies on a file system of the program's own, in a file. It is mounted in a mount namespace of the
// program's own, so that it goes with the program, however that ends.
#pragma once

#include <string>

namespace terrace::hazards {

// Before the first test. False, and why: the machine cannot have such a pool. True where none is asked for.
bool prepare_encrypted_pool(std::string* why_not);

// Null: none is asked for.
const std::string* encrypted_pool_directory();
// The socket of a daemon with that pool, which is started when it is asked for first.
const std::string& encrypted_pool_socket();

// In a scenario: whether the pool file that this process has is encrypted on the drive.
bool has_encrypted_pool(const std::string& pool_directory);

}  // namespace terrace::hazards
