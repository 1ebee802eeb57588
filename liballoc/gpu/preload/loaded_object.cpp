#include "liballoc/gpu/preload/loaded_object.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

namespace terrace::liballoc::gpu {

namespace {

bool is_call_slot(unsigned long type) {
  return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64;
}

// A file in memory, every access inside its bounds.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (fd >= 0 && fstat(fd, &status) == 0 && status.st_size > 0) {
      bytes_ = static_cast<std::size_t>(status.st_size);
      void* at = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, fd, 0);
      begin_ = at == MAP_FAILED ? nullptr : static_cast<const char*>(at);
    }
    if (fd >= 0) close(fd);
  }
  ~MappedFile() {
    if (begin_ != nullptr) munmap(const_cast<char*>(begin_), bytes_);  // NOLINT: munmap's type
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // nullptr when [offset, offset + bytes) is not in the file.
  const char* at(std::uint64_t offset, std::uint64_t bytes) const {
    if (begin_ == nullptr || offset > bytes_ || bytes > bytes_ - offset) return nullptr;
    return begin_ + offset;
  }

 private:
  const char* begin_ = nullptr;
  std::size_t bytes_ = 0;
};

template <typename T>
bool read(const MappedFile& file, std::uint64_t offset, T* out) {
  const char* at = file.at(offset, sizeof(T));
  if (at != nullptr) std::memcpy(out, at, sizeof(T));
  return at != nullptr;
}

bool symbols_define(const MappedFile& file, const ElfW(Shdr) & table, const ElfW(Shdr) & strings,
                    const char* function) {
  const std::size_t length = std::strlen(function) + 1;
  for (std::uint64_t i = 0; i < table.sh_size / sizeof(ElfW(Sym)); ++i) {
    ElfW(Sym) symbol;
    if (!read(file, table.sh_offset + i * sizeof(symbol), &symbol)) return false;
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= strings.sh_size) continue;
    const char* name = file.at(strings.sh_offset + symbol.st_name, length);
    if (name != nullptr && std::memcmp(name, function, length) == 0) return true;
  }
  return false;
}

}  // namespace

bool file_defines(const std::string& path, const char* function) {
  const MappedFile file(path);
  ElfW(Ehdr) head;
  if (!read(file, 0, &head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return false;
  for (unsigned i = 0; i < head.e_shnum; ++i) {
    ElfW(Shdr) table;
    ElfW(Shdr) strings;
    if (!read(file, head.e_shoff + std::uint64_t{i} * sizeof(table), &table)) return false;
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= head.e_shnum) continue;
    if (!read(file, head.e_shoff + std::uint64_t{table.sh_link} * sizeof(strings), &strings)) return false;
    if (symbols_define(file, table, strings, function)) return true;
  }
  return false;
}

LoadedObject::LoadedObject(const dl_phdr_info& info, const std::string& program)
    : path_(info.dlpi_name[0] == '\0' ? program : info.dlpi_name), base_(info.dlpi_addr) {
  for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    const auto* at =
        reinterpret_cast<const char*>(base_ + header.p_vaddr);  // NOLINT: where the linker put it
    if (header.p_type == PT_DYNAMIC) dynamic_ = reinterpret_cast<const ElfW(Dyn)*>(at);
    if (header.p_type == PT_LOAD && (header.p_flags & PF_R) != 0)
      segments_.push_back({at, header.p_memsz, (header.p_flags & PF_W) != 0});
  }
}

std::string LoadedObject::file_name() const { return path_.substr(path_.rfind('/') + 1); }

bool LoadedObject::holds(const void* address) const {
  const auto* at = static_cast<const char*>(address);
  for (const Segment& segment : segments_)
    if (at >= segment.begin && at < segment.begin + segment.bytes) return true;
  return false;
}

// glibc writes addresses into the dynamic section as it loads an object, except where that cannot be written
// to.
const void* LoadedObject::absolute(ElfW(Addr) value) const {
  const auto* as_is = reinterpret_cast<const void*>(value);  // NOLINT: where the linker put it
  return holds(as_is) ? as_is : reinterpret_cast<const void*>(base_ + value);  // NOLINT
}

LoadedObject::Tables LoadedObject::tables() const {
  Tables found;
  for (const ElfW(Dyn)* entry = dynamic_; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    const void* at = absolute(entry->d_un.d_ptr);
    switch (entry->d_tag) {
      case DT_SYMTAB:
        found.symbols = static_cast<const ElfW(Sym)*>(at);
        break;
      case DT_STRTAB:
        found.strings = static_cast<const char*>(at);
        break;
      case DT_STRSZ:
        found.strings_bytes = entry->d_un.d_val;
        break;
      case DT_RELA:
        found.relocations[0] = static_cast<const ElfW(Rela)*>(at);
        break;
      case DT_RELASZ:
        found.relocation_bytes[0] = entry->d_un.d_val;
        break;
      case DT_JMPREL:
        found.relocations[1] = static_cast<const ElfW(Rela)*>(at);
        break;
      case DT_PLTRELSZ:
        found.relocation_bytes[1] = entry->d_un.d_val;
        break;
      default:
        break;
    }
  }
  return found;
}

std::vector<Import> LoadedObject::imports(bool (*wanted)(const char* name)) const {
  std::vector<Import> found;
  const Tables t = tables();
  if (t.symbols == nullptr || t.strings == nullptr) return found;
  for (int list = 0; list < 2; ++list) {
    const std::size_t count =
        t.relocations[list] == nullptr ? 0 : t.relocation_bytes[list] / sizeof(ElfW(Rela));
    for (std::size_t i = 0; i < count; ++i) {
      const ElfW(Rela)& relocation = t.relocations[list][i];
      if (!is_call_slot(ELF64_R_TYPE(relocation.r_info))) continue;
      const ElfW(Sym)& symbol = t.symbols[ELF64_R_SYM(relocation.r_info)];
      if (symbol.st_name >= t.strings_bytes || !wanted(t.strings + symbol.st_name)) continue;
      const auto* slot = reinterpret_cast<const void* const*>(base_ + relocation.r_offset);  // NOLINT
      if (!holds(slot)) continue;
      const bool lazy = ELF64_R_TYPE(relocation.r_info) == R_X86_64_JUMP_SLOT && holds(*slot);
      found.push_back({t.strings + symbol.st_name, *slot, !lazy});
    }
  }
  return found;
}

bool LoadedObject::has_text(const char* text) const {
  const std::size_t length = std::strlen(text) + 1;
  for (const Segment& segment : segments_)
    if (!segment.writable && memmem(segment.begin, segment.bytes, text, length) != nullptr) return true;
  return false;
}

bool LoadedObject::contains_cuda_runtime() const {
  return file_defines(path_, "cudaMalloc") ||
         (has_text("cuGetExportTable") && has_text("cuGetProcAddress_v2"));
}

}  // namespace terrace::liballoc::gpu
