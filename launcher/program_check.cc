#include "launcher/program_check.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "common/unique_fd.h"

namespace cuspan {
namespace {

// Of a damaged file nothing is believed: more than these are none.
constexpr std::size_t kMostEntries = 4096;
constexpr std::size_t kMostNameBytes = 1 << 20;

template <typename T>
bool ReadAt(int fd, std::uint64_t offset, T* values, std::size_t count) {
  const std::size_t bytes = count * sizeof(T);
  return ::pread(fd, values, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

// What nvcc calls the section with device code.
constexpr std::string_view kCodeSection = ".nv_fatbin";

bool HasDeviceCode(int fd, const Elf64_Ehdr& header) {
  if (header.e_shnum == 0 || header.e_shnum > kMostEntries || header.e_shstrndx >= header.e_shnum)
    return false;
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  if (!ReadAt(fd, header.e_shoff, sections.data(), sections.size())) return false;
  const Elf64_Shdr& names = sections[header.e_shstrndx];
  if (names.sh_size == 0 || names.sh_size > kMostNameBytes) return false;
  std::string text(names.sh_size, '\0');
  if (!ReadAt(fd, names.sh_offset, text.data(), text.size())) return false;
  for (const Elf64_Shdr& section : sections)
    if (section.sh_name < text.size() && kCodeSection == text.c_str() + section.sh_name)
      return true;
  return false;
}

}  // namespace

Status CheckEntered(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Elf64_Ehdr header;
  if (!file.valid() || !ReadAt(file.get(), 0, &header, 1) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > kMostEntries)
    return Status::Ok();
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  if (!ReadAt(file.get(), header.e_phoff, segments.data(), segments.size())) return Status::Ok();
  for (const Elf64_Phdr& segment : segments)
    if (segment.p_type == PT_INTERP) return Status::Ok();
  if (!HasDeviceCode(file.get(), header)) return Status::Ok();
  return Status::Unsupported(
      "{} is fully statically linked, so cuspan cannot intercept its CUDA calls: link it without "
      "-static (a static CUDA runtime, nvcc's default, is supported)",
      path);
}

std::string WarnOfOwnRights(const std::string& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) return {};
  const bool user = (file.st_mode & S_ISUID) != 0 && file.st_uid != ::geteuid();
  const bool group = (file.st_mode & S_ISGID) != 0 && file.st_gid != ::getegid();
  const bool capable =
      ::geteuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  if (!user && !group && !capable) return {};
  return Format(
      "{} has elevated privileges ({}), so the dynamic loader does not preload cuspan's library "
      "and its CUDA calls are not intercepted: run a copy without them",
      path,
      user    ? "setuid"
      : group ? "setgid"
              : "file capabilities");
}

}  // namespace cuspan
