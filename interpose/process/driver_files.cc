#include "interpose/process/driver_files.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>

#include "common/format.h"
#include "protocol/nvml/nvml.h"

namespace cuspan {
namespace {

constexpr std::string_view kName = "nvidia";
constexpr std::string_view kDevices = "/dev/nvidia";
constexpr std::string_view kModule = "/sys/module/nvidia";
constexpr std::string_view kProc = "/proc/driver/nvidia";

// Major numbers of device files. 195 is from the kernel's list
// (Documentation/admin-guide/devices.txt). The unified-memory device gets its number from the
// dynamic range when its module is loaded.
constexpr unsigned kMajor = 195;
constexpr unsigned kControlMinor = 255;
constexpr unsigned kUnifiedMemoryMajor = 511;

DriverFile Device(unsigned major, unsigned minor) {
  DriverFile file;
  file.kind = DriverFile::Kind::kDevice;
  file.major = major;
  file.minor = minor;
  return file;
}

DriverFile Text(std::string text) {
  DriverFile file;
  file.kind = DriverFile::Kind::kText;
  file.text = std::move(text);
  return file;
}

DriverFile Folder(std::vector<std::string> names) {
  DriverFile file;
  file.kind = DriverFile::Kind::kFolder;
  file.names = std::move(names);
  return file;
}

// `rest` follows "/dev/nvidia".
DriverFile FindDevice(std::string_view rest, std::size_t devices) {
  if (rest == "ctl") return Device(kMajor, kControlMinor);
  if (rest == "-uvm") return Device(kUnifiedMemoryMajor, 0);
  unsigned number = 0;
  const char* const end = rest.data() + rest.size();
  const auto read = std::from_chars(rest.data(), end, number);
  const bool is_number =
      read.ec == std::errc() && read.ptr == end && (rest == "0" || rest[0] != '0');
  return is_number && number < devices ? Device(kMajor, number) : DriverFile{};
}

// The kernel writes PCI addresses in lower case.
std::string PciAddress(const DeviceDescription& device) {
  std::string address = device.pci_bus_id;
  for (char& letter : address)
    if (letter >= 'A' && letter <= 'F') letter = static_cast<char>(letter - 'A' + 'a');
  return address;
}

DriverFile FindProc(std::string_view rest, const std::vector<DeviceDescription>& devices) {
  const std::string& release = devices.front().driver_release;
  if (rest.empty())
    return Folder(release.empty() ? std::vector<std::string>{"gpus"}
                                  : std::vector<std::string>{"gpus", "version"});
  if (rest == "/version" && !release.empty())
    return Text(Format("NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  (of the run's GPUs)\n",
                       release));
  constexpr std::string_view kGpus = "/gpus";
  if (!rest.starts_with(kGpus)) return {};
  rest.remove_prefix(kGpus.size());
  std::vector<std::string> addresses;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const std::string address = PciAddress(devices[i]);
    if (rest == "/" + address) return Folder({"information"});
    if (rest == Format("/{}/information", address))
      return Text(
          Format("Model: \t\t {}\nGPU UUID: \t {}\nBus Type: \t PCIe\nBus Location: \t {}\nDevice "
                 "Minor: \t "
                 "{}\n",
                 devices[i].name, nvml::UuidText(devices[i].mig, devices[i].uuid), address, i));
    addresses.push_back(address);
  }
  return rest.empty() ? Folder(std::move(addresses)) : DriverFile{};
}

}  // namespace

std::vector<std::string> DeviceFileNames(std::size_t devices) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < devices; ++i) names.push_back(Format("{}{}", kName, i));
  names.emplace_back("nvidiactl");
  names.emplace_back("nvidia-uvm");
  return names;
}

DriverFile FindDriverFile(std::string_view path, const std::vector<DeviceDescription>& devices) {
  if (devices.empty()) return {};
  if (path.starts_with(kDevices)) return FindDevice(path.substr(kDevices.size()), devices.size());
  if (path.starts_with(kProc)) return FindProc(path.substr(kProc.size()), devices);
  const std::string& release = devices.front().driver_release;
  if (release.empty()) return {};
  if (path == kModule) return Folder({"version"});
  return path == Format("{}/version", kModule) ? Text(release + "\n") : DriverFile{};
}

void FillStat(const DriverFile& file, const struct stat& near, struct stat* out) {
  *out = {};
  out->st_dev = near.st_dev;
  out->st_blksize = near.st_blksize;
  out->st_atim = near.st_atim;
  out->st_mtim = near.st_mtim;
  out->st_ctim = near.st_ctim;
  out->st_nlink = 1;
  // Unique per file, and never used by real files.
  constexpr ino_t kFirst = ino_t{1} << 62;
  switch (file.kind) {
    case DriverFile::Kind::kNone:
      return;
    case DriverFile::Kind::kDevice:
      out->st_mode = S_IFCHR | 0666;
      out->st_rdev = ::makedev(file.major, file.minor);
      out->st_ino = kFirst + out->st_rdev;
      return;
    case DriverFile::Kind::kText:
      out->st_mode = S_IFREG | 0444;
      out->st_ino = kFirst + (std::hash<std::string>()(file.text) >> 4U);
      return;
    case DriverFile::Kind::kFolder:
      out->st_mode = S_IFDIR | 0555;
      out->st_nlink = 2;
      out->st_ino = kFirst + (std::hash<std::string>()(file.names.front()) >> 4U);
      return;
  }
}

bool MayBeDriverFile(const char* path) {
  return path != nullptr && std::strstr(path, kName.data()) != nullptr;
}

std::string AbsolutePath(std::string_view path, std::string_view base) {
  std::vector<std::string_view> parts;
  const auto add = [&](std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('/'), text.size());
      const std::string_view part = text.substr(0, end);
      if (part == "..") {
        if (!parts.empty()) parts.pop_back();
      } else if (!part.empty() && part != ".") {
        parts.push_back(part);
      }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  };
  if (!path.starts_with('/')) add(base);
  add(path);
  std::string whole;
  for (const std::string_view part : parts) whole.append("/").append(part);
  return whole.empty() ? "/" : whole;
}

}  // namespace cuspan
