#include "launcher/host/program_check.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "common/unique_fd.h"

namespace cuspan {
namespace {

// Limits for valid files; a file beyond them is considered damaged.
constexpr std::size_t kMaxEntries = 4096;
constexpr std::size_t kMaxNameBytes = 1 << 20;

template <typename T>
bool ReadAt(int fd, std::uint64_t offset, T* values, std::size_t count) {
  const std::size_t bytes = count * sizeof(T);
  return ::pread(fd, values, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

// True if the dynamic loader starts the ELF program; *header is then filled. Empty for other files,
// such as scripts.
std::optional<bool> IsDynamic(int fd, Elf64_Ehdr* header) {
  if (fd < 0 || !ReadAt(fd, 0, header, 1) || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_phentsize != sizeof(Elf64_Phdr) ||
      header->e_phnum > kMaxEntries)
    return std::nullopt;
  std::vector<Elf64_Phdr> segments(header->e_phnum);
  if (!ReadAt(fd, header->e_phoff, segments.data(), segments.size())) return std::nullopt;
  for (const Elf64_Phdr& segment : segments)
    if (segment.p_type == PT_INTERP) return true;
  return false;
}

// Section names: nvcc's for device code, and one present in all programs of Go.
constexpr std::string_view kDeviceCode = ".nv_fatbin";
constexpr std::string_view kGo = ".go.buildinfo";

bool HasSection(int fd, const Elf64_Ehdr& header, std::string_view name) {
  if (header.e_shnum == 0 || header.e_shnum > kMaxEntries || header.e_shstrndx >= header.e_shnum)
    return false;
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  if (!ReadAt(fd, header.e_shoff, sections.data(), sections.size())) return false;
  const Elf64_Shdr& names = sections[header.e_shstrndx];
  if (names.sh_size == 0 || names.sh_size > kMaxNameBytes) return false;
  std::string text(names.sh_size, '\0');
  if (!ReadAt(fd, names.sh_offset, text.data(), text.size())) return false;
  for (const Elf64_Shdr& section : sections)
    if (section.sh_name < text.size() && name == text.c_str() + section.sh_name) return true;
  return false;
}

std::string MachineName(unsigned machine) {
  switch (machine) {
    case EM_386:
      return "32-bit x86";
    case EM_X86_64:
      return "x86-64";
    case EM_ARM:
      return "32-bit Arm";
    case EM_AARCH64:
      return "AArch64";
    case EM_PPC64:
      return "PowerPC";
    case EM_RISCV:
      return "RISC-V";
    default:
      return Format("ELF machine {}", machine);
  }
}

// First bytes of a file.
std::string StartOf(const std::string& path) {
  std::string start(256, '\0');
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  const ssize_t got = file.valid() ? ::pread(file.get(), start.data(), start.size(), 0) : 0;
  start.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return start;
}

// The interpreter named after "#!" in the first line; empty if there is none.
std::string InterpreterOf(std::string_view start) {
  if (!start.starts_with("#!")) return "";
  start.remove_prefix(2);
  start = start.substr(0, start.find('\n'));
  start.remove_prefix(std::min(start.find_first_not_of(" \t"), start.size()));
  return std::string(start.substr(0, start.find_first_of(" \t")));
}

}  // namespace

bool IsBinary(const std::string& path) {
  const std::string start = StartOf(path);
  return start.starts_with(ELFMAG) || start.substr(0, start.find('\n')).find('\0') != start.npos;
}

Status ExplainStart(const std::string& name, const std::string& path, int error) {
  const std::string start = path.empty() ? "" : StartOf(path);
  if (error == ENOEXEC && start.starts_with(ELFMAG) && start.size() >= sizeof(Elf64_Ehdr)) {
    // The field has the same offset in 32-bit and 64-bit files.
    std::uint16_t machine = 0;
    std::memcpy(&machine, start.data() + offsetof(Elf64_Ehdr, e_machine), sizeof machine);
    return Status::Refused("{}: cannot execute binary file: it is a program for {}", name,
                           MachineName(machine));
  }
  if (error == ENOEXEC) return Status::Refused("{}: cannot execute binary file", name);
  if ((error == ENOENT || error == ENOTDIR) && !start.empty()) {
    const std::string interpreter = InterpreterOf(start);
    if (interpreter.ends_with('\r'))
      return Status::Refused(
          "{}: its first line ends with a carriage return, taken as part of the interpreter's "
          "name: remove it (dos2unix)",
          name);
    if (!interpreter.empty())
      return Status::Refused(
          "{}: its interpreter {} does not exist: install it, or change the first line of the "
          "script",
          name, interpreter);
    return Status::Refused(
        "{}: its loader does not exist: it is a program for another system (readelf "
        "--program-headers shows the loader)",
        name);
  }
  if (error == ENOENT || error == ENOTDIR)
    return Status::NotFound("{}: {}", name, std::strerror(error));
  return Status::Refused("{}: {}", name, std::strerror(error));
}

Status CheckEntered(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Elf64_Ehdr header;
  if (IsDynamic(file.get(), &header).value_or(true)) return Status::Ok();
  if (!HasSection(file.get(), header, kDeviceCode)) return Status::Ok();
  return Status::Unsupported(
      "{} is fully statically linked, so cuspan cannot intercept its CUDA calls: link it without "
      "-static (a static CUDA runtime, nvcc's default, is supported)",
      path);
}

bool CallsKernelItself(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Elf64_Ehdr header;
  const std::optional<bool> dynamic = IsDynamic(file.get(), &header);
  return dynamic && (!*dynamic || HasSection(file.get(), header, kGo));
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
