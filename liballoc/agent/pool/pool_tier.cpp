#include "liballoc/agent/pool/pool_tier.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "liballoc/base/message.h"
#include "liballoc/base/os.h"
#include "liballoc/base/own_descriptors.h"
#include "liballoc/heap/space/address_space.h"
#include "liballoc/paging/transfers/run_frame.h"
#include "tiers/fixed_queue.h"
#include "tiers/high_descriptor.h"

namespace terrace::liballoc {
namespace {

static_assert(PoolDirectories::most == tiers::StripedTier::most_drives);

bool has_no_ring(const tiers::Tier& tier) { return std::strcmp(tier.io(), "io_uring") != 0; }

}  // namespace

// ---- files ------------------------------------------------------------------------------------------------

bool PoolTier::open_files(Client& client, PoolFiles* files) {
  const Grant& grant = client.grant();
  is_granted_ = grant.pool_fd >= 0 && grant.pool_capacity_bytes >= run_bytes;
  if (!is_granted_) return make_own_files(client, files);
  const auto fd = static_cast<int>(syscall(SYS_fcntl, grant.pool_fd, F_DUPFD_CLOEXEC, 3));
  if (fd < 0) return unusable("", errno);
  files->adopt(fd, grant.pool_capacity_bytes);
  files->divide(grant.pool_capacity_bytes);
  return true;
}

bool PoolTier::make_own_files(Client& client, PoolFiles* files) {
  client.use_no_pool();
  const bool must_encrypt = client.grant().encrypts_pools;  // as the daemon last said
  if (must_encrypt && !options_.makes_own_pool()) return no_plain_file();
  if (must_encrypt) tell_plain();
  if (client.connected() && !options_.makes_own_pool()) tell_not_granted();
  const char* failed = "";
  if (const int error = files->make(options_.pool_directories, &failed); error != 0)
    return no_file(failed, error);
  files->divide(options_.pool_bytes);
  tell_twin(*files, client.connected());
  return true;
}

void PoolTier::tell_not_granted() const {
  const PoolDirectories& directories = options_.pool_directories;
  Message m(Severity::warning);
  m << "the daemon grants no pool (its log says why): what does not fit in DRAM goes to a file of this "
       "process "
       "in "
    << (directories.size() > 1 ? "each of " : "") << directories[0];
  for (std::size_t i = 1; i < directories.size(); ++i) m << "," << directories[i];
  m << ", which the daemon's [pool] size does not count";
}

// The administrator wants nothing of a job's on a drive that can be read there.
bool PoolTier::no_plain_file() {
  availability_.set_unavailable("the daemon grants no pool, and allows none that is not encrypted");
  Message(Severity::warning)
      << "the daemon grants no pool (its log says why), and pools must be encrypted here ([pool] encrypt), "
         "so this process makes no pool of its own; the program runs on plain memory";
  return false;
}

// What the user names is his to decide.
void PoolTier::tell_plain() const {
  Message(Severity::warning) << "TERRACE_POOL_DIR: what is kept there is not encrypted, unlike the daemon's "
                                "pools ([pool] encrypt)";
}

// `terrace run`, which brings the daemon, has said so once for all processes of the job.
void PoolTier::tell_twin(const PoolFiles& files, bool was_told) const {
  const PoolFiles::File* twin = files.first_twin();
  if (twin == nullptr) return;
  Message(was_told ? Severity::info : Severity::warning)
      << "TERRACE_POOL_DIR: " << twin->directory
      << " is on the same file system as a directory before it; name one directory on each drive, as two on "
         "one "
         "drive are no faster";
}

void PoolTier::tell_without_room(const PoolFiles::File& file) const {
  Message m(Severity::warning);
  m << "TERRACE_POOL_DIR: there is no room in " << file.directory << " (";
  m.bytes(file.free_bytes)
      << " free): the pool leaves this directory out; free some space, or name another directory";
}

bool PoolTier::unusable(const char* directory, int error) {
  availability_.set_unavailable("the pool file cannot be used");
  Message m(Severity::warning);
  m << availability_.reason();
  if (directory[0] != '\0' && options_.pool_directories.size() > 1) m << " in " << directory;
  m << ", ";
  m.error(error) << "; the program runs on plain memory";
  return false;
}

bool PoolTier::no_file(const char* directory, int error) {
  Message m(Severity::warning);
  m << "TERRACE_POOL_DIR=" << directory << ": no pool file can be made there, ";
  m.error(error) << "; the program runs on plain memory";
  if (options_.pool_directories.size() > 1)
    m << " (TERRACE_POOL_DIR names several: leave that one out, or make it a directory that may be written "
         "to)";
  availability_.set_unavailable("no pool file can be made in TERRACE_POOL_DIR");
  return false;
}

// ---- tiers ------------------------------------------------------------------------------------------------

tiers::NvmeTier& PoolTier::drive(std::size_t i) {
  return i == 0 ? nvme_ : *std::launder(reinterpret_cast<tiers::NvmeTier*>(more_.data()) + (i - 1));
}

// Those with a part of the pool; all queues may have to go to one drive.
bool PoolTier::open_drives(std::span<PoolFiles::File> files) {
  constexpr std::size_t depth = tiers::NvmeTier::Options{}.queue_depth;
  if (files.size() > 1 && more_.map((files.size() - 1) * sizeof(tiers::NvmeTier)) != 0)
    return unusable("", ENOMEM);
  for (PoolFiles::File& file : files) {
    if (file.bytes != 0 && !open_drive(&file, std::min(depth * files.size(), tiers::max_queue_depth)))
      return false;
    if (file.bytes == 0 && files.size() > 1) tell_without_room(file);
  }
  return drives_ > 0 || unusable("", ENOSPC);
}

// The file's descriptor is the tier's, or closed with the files.
bool PoolTier::open_drive(PoolFiles::File* file, std::size_t depth) {
  if (drives_ > 0) new (more_.data() + (drives_ - 1) * sizeof(tiers::NvmeTier)) tiers::NvmeTier;
  file->fd = tiers::move_to_high_number(file->fd);
  const tiers::NvmeTier::Options options{.capacity_bytes = file->bytes,
                                         .queue_depth = depth,
                                         .io = static_cast<tiers::NvmeTier::Io>(options_.io)};
  if (const int error = drive(drives_).open(file->fd, options); error != 0) {
    if (options_.io != IoKind::io_uring) return unusable(file->directory, error);
    availability_.give_up("io_uring is not available, and TERRACE_IO insists on it");
    return false;
  }
  file->fd = -1;
  directories_[drives_++] = file->directory;
  return true;
}

bool PoolTier::join() {
  joined_ = &nvme_;
  if (drives_ > 1) {
    tiers::StripedTier::Drive list[PoolDirectories::most];
    for (std::size_t i = 0; i < drives_; ++i) list[i] = {&drive(i), directories_[i]};
    if (const int error = striped_.open({list, drives_}); error != 0) return unusable("", error);
    joined_ = &striped_;
  }
  if (has_no_ring(*joined_) && options_.io == IoKind::automatic) {
    Message(Severity::warning)
        << "io_uring is not available here: the pool is read and written with pread and pwrite";
  }
  return true;
}

// The daemon may lease the writes to what it granted.
tiers::Tier* PoolTier::leased(tiers::Tier* tier) {
  lease_ = nullptr;
  if (!is_granted_) return tier;
  lease_ = new (lease_storage_) tiers::WriteLeaseAdaptor(*tier);
  return lease_;
}

bool PoolTier::wrap() {
  tier_ = injection_.wrap(leased(joined_), options_.fault);
  if (tier_ != nullptr) {
    tier_ = meters_.put_on(tier_, wire::Stat::recent_drive_read_bytes);
    return true;
  }
  availability_.set_unavailable("TERRACE_FAULT is not understood");
  Message(Severity::error) << "TERRACE_FAULT=" << options_.fault << " is not understood ("
                           << FaultInjection::accepted << "); the program runs on plain memory";
  return false;
}

// What the daemon has is no reason to fail: a text that is not understood, or that this job's options forbid,
// counts as none.
void PoolTier::choose_tiers(const Grant& grant) {
  tiers_ = options_.tiers;
  if (tiers_.is_named() || grant.tiers[0] == '\0') return;
  TierList list;
  if (read_tiers(grant.tiers, &list) != nullptr) {
    Message(Severity::info) << "the daemon has tiers before the pool that this library does not know: "
                            << grant.tiers;
    return;
  }
  if (options_.compression != Compression::off || !list.compressed().is_wanted()) tiers_ = list;
}

// The tiers before the pool. One that is not to be had is done without, and that is said: the job has asked
// for speed, not for its end.
bool PoolTier::chain(const Grant& grant) {
  tiers::ChainedTier::Upper uppers[tiers::ChainedTier::most_uppers];
  std::size_t count = 0;
  if (open_compressed(&uppers[count])) ++count;
  if (tiers::Tier* const nvm = nvm_.open(tiers_.nvm(), grant, options_.fault))
    uppers[count++] = {.tier = meters_.put_on(nvm, wire::Stat::recent_nvm_read_bytes)};
  if (count == 0) return true;
  if (const int error = chain_.open({uppers, count}, tier_); error != 0) {
    Message m(Severity::warning);
    m << "TERRACE_TIERS: no tables for a chain of tiers, ";
    m.error(error) << "; the pool alone is used";
    return true;
  }
  tier_ = &chain_;
  return true;
}

// Address space for as much as any budget may allow: it takes memory as it is used.
bool PoolTier::open_compressed(tiers::ChainedTier::Upper* upper) {
  const CompressedSize& size = tiers_.compressed();
  if (!size.is_wanted()) return false;
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  const int error = compressed_.open(std::max<std::uint64_t>(size.of(pages * os::page_bytes), run_bytes),
                                     tiers::max_queue_depth, tiers::DramTier::Memory::of_slabs);
  if (error != 0) {
    Message m(Severity::warning);
    m << "TERRACE_TIERS: no address space for compressed DRAM, ";
    m.error(error) << "; the job does without it";
    return false;
  }
  *upper = {.tier = meters_.put_on(&compressed_, wire::Stat::recent_compressed_read_bytes),
            .largest_bytes = RunFrame::most_kept_bytes,
            .dram = &compressed_};
  return true;
}

bool PoolTier::open(Client& client) {
  PoolFiles files;
  if (!open_files(client, &files) || !open_drives(files.files()) || !join() || !wrap() ||
      !chain(client.grant())) {
    close();
    return false;
  }
  for (std::size_t i = 0; i < drives_; ++i) note_descriptor(drive(i).fd());
  if (nvm_.fd() >= 0) note_descriptor(nvm_.fd());
  for_each_waiter([](int fd) { note_descriptor(fd); });
  return true;
}

void PoolTier::close() {
  chain_.close();
  meters_.forget();
  nvm_.close();
  striped_.close();
  for (std::size_t i = 0; i < drives_; ++i) drive(i).close();
  drives_ = 0;
}

// Each descriptor that something waits on, once: the drives' rings, the stripes' over them, a fault's over
// that.
template <typename Visit>
void PoolTier::for_each_waiter(Visit visit) {
  for (std::size_t i = 0; i < drives_; ++i) visit(drive(i).wait_fd());
  if (joined_ == &striped_) visit(striped_.wait_fd());
  if (tier_ != nullptr && tier_->wait_fd() != joined_->wait_fd()) visit(tier_->wait_fd());
}

void PoolTier::forget_descriptors_in_child() {
  for_each_waiter([](int fd) { forget_descriptor(fd); });
}

void PoolTier::note_descriptors_in_child() {
  for_each_waiter([](int fd) { note_descriptor(fd); });
}

}  // namespace terrace::liballoc
