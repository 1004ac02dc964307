#include "interpose/load/loaded_object.h"

#include "interpose/load/cupti.h"
#include "interpose/load/elf_image.h"
#include "interpose/load/entered.h"
#include "interpose/load/patch.h"
#include "interpose/load/static_cudart.h"
#include "interpose/load/syscalls.h"
#include "interpose/load/vendor_library.h"

namespace cuspan::load {
namespace {

// Consequence of a problem, and its remedy.
constexpr const char* kRemedy =
    ", so the CUDA runtime linked into it cannot be replaced: link it with nvcc -cudart shared";
constexpr const char* kMissed =
    ", so its functions are intercepted only if they are called by name";

// A file mapped for reading.
class MappedFile {
 public:
  explicit MappedFile(const char* path) {
    const long opened = SysOpenForReading(path);
    if (Failed(opened)) return;
    fd_ = static_cast<int>(opened);
    struct stat status;
    if (SysStatus(fd_, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= 0) return;
    const auto size = static_cast<std::size_t>(status.st_size);
    const long mapped = SysMap(nullptr, size, PROT_READ, MAP_PRIVATE, fd_, 0);
    if (!Failed(mapped)) bytes_ = {reinterpret_cast<const std::uint8_t*>(mapped), size};
  }
  ~MappedFile() {
    if (bytes_.data != nullptr) SysUnmap(bytes_.data, bytes_.size);
    if (fd_ >= 0) SysClose(fd_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  int fd() const { return fd_; }
  Bytes bytes() const { return bytes_; }

 private:
  int fd_ = -1;
  Bytes bytes_;
};

// Working memory, too large for the stack of a small thread.
constinit TargetList target_list = {};
constinit Entry entry_list[TargetList::kCapacity] = {};

bool IsLoadedAs(const ElfImage& image, const LoadedObject& object) {
  std::uint64_t dynamic = 0;
  return image.DynamicAddress(&dynamic) && object.bias + dynamic == object.dynamic;
}

// Adds the reason why functions of `what` could not be redirected. `function`: the one affected.
void Explain(const char* what, const char* function, const PatchReport& report, Warning* warning) {
  switch (report.verdict) {
    case PatchVerdict::kDone:
      return;
    case PatchVerdict::kNoCode:
      warning->Add(function).Add(" in ").Add(what).Add(" is not in executable code");
      return;
    case PatchVerdict::kTooShort:
      warning->Add(function).Add(" in ").Add(what).Add(" is too short to be redirected");
      return;
    case PatchVerdict::kChanged:
      warning->Add(function).Add(" in ").Add(what);
      warning->Add(
          " differs in memory from the file (was the file replaced, or did a debugger set a "
          "breakpoint before the program was started?)");
      return;
    case PatchVerdict::kRefused:
    case PatchVerdict::kBroken:
      warning->Add("the system does not let cuspan redirect functions in ").Add(what);
      warning->Add(" (mprotect: error ").AddNumber(static_cast<unsigned>(report.error)).Add(")");
      return;
  }
}

[[noreturn]] void GiveUp(const Warning& warning) {
  Warning line;
  line.Add("cuspan: ").Add(warning.text()).Add("; the process cannot continue");
  line.Publish();
  std::size_t size = 0;
  while (line.text()[size] != 0) ++size;
  SysWrite(2, line.text(), size);
  SysWrite(2, "\n", 1);
  SysExit(127);
}

// Redirects the first `count` of entry_list, exported functions of the object, to ours.
Entered EnterExports(const LoadedObject& object, const ElfImage& image, int fd, std::size_t count,
                     Warning* warning) {
  const PatchReport report = PatchEntries(image, object.bias, fd, entry_list, count);
  if (report.verdict == PatchVerdict::kDone) return Entered::kDone;
  Explain(object.name, "a function", report, warning);
  warning->Add(", so it does not work with the devices of the run").Publish();
  if (report.verdict == PatchVerdict::kBroken) GiveUp(*warning);
  return Entered::kNotEntered;
}

}  // namespace

Entered EnterObject(const LoadedObject& object, const ExportTable& runtime, Warning* serious,
                    Warning* lesser) {
  const MappedFile file(object.path);
  if (file.bytes().data == nullptr) return Entered::kNotReadable;
  ElfImage image;
  if (image.Parse(file.bytes()) != ElfImage::Verdict::kUsable) return Entered::kNotReadable;
  if (!IsLoadedAs(image, object)) return Entered::kOtherFile;
  if (IsCupti(object.path)) {
    const std::size_t count = ListCupti(image, entry_list, TargetList::kCapacity);
    return EnterExports(object, image, file.fd(), count, lesser);
  }
  if (const VendorLibrary vendors = VendorLibraryAt(object.path, image);
      vendors != VendorLibrary::kNone) {
    if (vendors == VendorLibrary::kNccl) RememberNccl(object.path);
    if (vendors == VendorLibrary::kCufile) RememberCufile(CufileVersion(image));
    const std::size_t count =
        ListVendorLibrary(vendors, image, ExportsFor(vendors), entry_list, TargetList::kCapacity);
    return EnterExports(object, image, file.fd(), count, lesser);
  }

  const ExportTable replacements =
      object.is_program ? ExportTable{} : ReplacementsFor(image.SharedName());
  const bool is_replaced = replacements.count != 0;
  const ExportTable& exports = is_replaced ? replacements : runtime;
  const char* const remedy = is_replaced ? kMissed : kRemedy;
  Warning* const warning = is_replaced ? lesser : serious;
  const Search search = is_replaced
                            ? FindExported(image, exports, &target_list)
                            : FindStaticCudart(image, exports, object.is_program, &target_list);
  switch (search.finding) {
    case Finding::kNone:
      return Entered::kNothingToDo;
    case Finding::kFound:
      break;
    case Finding::kStripped:
      warning->Add(object.name)
          .Add(
              " is a stripped binary with a static CUDA runtime unknown to cuspan: link it with "
              "nvcc -cudart shared, or do not strip it")
          .Publish();
      return Entered::kNotEntered;
    case Finding::kUnusable:
      warning->Add(search.name).Add(" in ").Add(object.name).Add(" ").Add(search.problem);
      warning->Add(remedy).Publish();
      return Entered::kNotEntered;
  }
  // Its kernels are already registered with the linked runtime.
  if (!is_replaced && object.has_run) {
    warning->Add(object.name)
        .Add(" ran before cuspan's library was loaded, because a parent process dropped LD_PRELOAD")
        .Add(kRemedy)
        .Publish();
    return Entered::kNotEntered;
  }
  for (std::size_t i = 0; i < target_list.count; ++i) {
    const Target& target = target_list.targets[i];
    const auto function = exports.entries[target.export_index].function;
    entry_list[i] = {target.address, target.size, target.limit,
                     reinterpret_cast<std::uint64_t>(function)};
  }
  const PatchReport report =
      PatchEntries(image, object.bias, file.fd(), entry_list, target_list.count);
  if (report.verdict == PatchVerdict::kDone) {
    if (!is_replaced) RememberRelease(image, object.bias, ReleaseOf(target_list, exports));
    return Entered::kDone;
  }
  const char* const name = exports.entries[target_list.targets[report.entry].export_index].name;
  Explain(object.name, name, report, warning);
  warning->Add(remedy).Publish();
  if (report.verdict == PatchVerdict::kBroken) GiveUp(*warning);
  return Entered::kNotEntered;
}

bool HookLoader(const LoadedObject& loader, std::uint64_t breakpoint, void (*function)(),
                void (*debugged)(), Warning* warning) {
  const MappedFile file(loader.path);
  ElfImage image;
  PatchReport report{PatchVerdict::kChanged, 0, 0};
  if (file.bytes().data != nullptr && image.Parse(file.bytes()) == ElfImage::Verdict::kUsable &&
      IsLoadedAs(image, loader)) {
    Entry entry{breakpoint - loader.bias, 0, 0, reinterpret_cast<std::uint64_t>(function)};
    // The function must be a plain return, so replacing it loses nothing. Functions begin at
    // multiples of 16: up to there, only padding follows.
    constexpr const char* kMarkedReturn = "\xf3\x0f\x1e\xfa\xc3";
    constexpr std::size_t kMarkedReturnSize = 5;
    Elf64_Phdr segment;
    report.verdict = PatchVerdict::kTooShort;
    if (image.FindSegment(entry.address, 16, &segment)) {
      const Bytes code = image.file().Part(segment.p_offset + (entry.address - segment.p_vaddr),
                                           kMarkedReturnSize);
      if (code.data[0] == 0xc3) entry.size = 1;
      if (Contains(code, kMarkedReturn)) entry.size = kMarkedReturnSize;
      entry.limit = (entry.address | 15) + 1;
      if (entry.size != 0) report = PatchEntries(image, loader.bias, file.fd(), &entry, 1);
      if (report.verdict == PatchVerdict::kChanged)
        report = PatchCalls(image, loader.bias, entry.address,
                            reinterpret_cast<std::uint64_t>(debugged));
    }
  }
  if (report.verdict == PatchVerdict::kDone) return true;
  Explain(loader.name, "the debugger's breakpoint function", report, warning);
  warning
      ->Add(
          ", so CUDA calls of libraries loaded later with a static CUDA runtime are not "
          "intercepted")
      .Publish();
  if (report.verdict == PatchVerdict::kBroken) GiveUp(*warning);
  return false;
}

}  // namespace cuspan::load
