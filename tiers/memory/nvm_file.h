// The file behind the NVM tier, in one of two places:
//
//  * a directory on a file system that is mounted with DAX on persistent memory: the kernel copies between
//    our pages and the medium. Any other directory works, at the speed of its page cache or, on tmpfs, of
//    DRAM.
//  * NUMA nodes of slow memory (node_set.h): a memfd whose pages the kernel takes from these nodes alone
//    (mbind, MPOL_BIND). The rule is the file's, whoever writes to it.
//
// Why a file, and not memory at an address: what is written to it is no memory of the process's (RssAnon and
// RssShmem, by which a daemon judges reports), a full file system is ENOSPC, a forked child reads it by the
// same descriptor, and a daemon can hand one out. docs/decisions/060 has the rest.
#pragma once

#include <cstdint>

#include "tiers/memory/node_set.h"

namespace terrace::tiers {

// Unnamed, close-on-exec, not yet of any size. 0 or errno; *fd_out is untouched on failure.
int open_nvm_in_directory(const char* directory, int* fd_out) noexcept;

// Of at most `capacity_bytes`, which are taken as they are written. EINVAL: no nodes; EFBIG: RLIMIT_FSIZE;
// else errno, such as EPERM where a seccomp filter forbids mbind (a container).
int open_nvm_on_nodes(const NodeSet& nodes, std::uint64_t capacity_bytes, int* fd_out) noexcept;

// The nodes from which the file's pages are taken; empty: there is no rule.
NodeSet nodes_of(int fd) noexcept;

// Whether the file lies on persistent memory without a page cache before it (STATX_ATTR_DAX).
bool is_dax(int fd) noexcept;

}  // namespace terrace::tiers
