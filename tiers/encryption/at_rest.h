// Whether what a directory keeps is encrypted on its drive, or can be. The kernel does it in either way:
//
//   dm-crypt   below the file system: the whole device, by cryptsetup(8) or crypttab(5)
//   fscrypt    in the file system: single directories and what is in them (Documentation/filesystems/
//              fscrypt.rst of the kernel); ext4 and f2fs have it
//
// Decision 053 says why the kernel and not the job.
#pragma once

#include <sys/types.h>

#include <string>

namespace terrace::encryption {

struct AtRest {
  enum class How {
    impossible,
    possible,   // a directory in it can have a key of its own (EncryptedDirectory)
    directory,  // it has a key already (fscrypt)
    device,     // its file system lies on dm-crypt
  };
  How how = How::impossible;
  std::string reason;  // impossible: why, and what to do; for people
  bool is_encrypted() const { return how == How::directory || how == How::device; }
};

// Of a directory that can be opened; it is not changed. Any thread; it asks the kernel alone, no drive.
AtRest look_at_rest(const std::string& directory);

// Whether the block device is dm-crypt's, or all that it is made of are (LVM, md, partitions). False for what
// `sysfs` does not know, such as the numbers that btrfs, overlayfs and NFS give their files.
bool is_encrypted_device(dev_t device, const std::string& sysfs = "/sys");

// Whether O_DIRECT goes past the page cache in this file: not in fscrypt's files on a file system that is
// mounted without inlinecrypt. True where the kernel cannot say (before 6.1).
bool takes_direct_io(int fd);

}  // namespace terrace::encryption
