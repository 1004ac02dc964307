#include "proxy/files/named_file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

namespace cuspan::proxy {
namespace {

// A path may change between being resolved and being opened.
constexpr int kTries = 3;

// The path without links; nothing with an errno.
std::optional<std::string> Resolve(const std::string& path) {
  struct Free {
    void operator()(char* text) const { std::free(text); }
  };
  const std::unique_ptr<char, Free> resolved(::realpath(path.c_str(), nullptr));
  if (resolved == nullptr) return std::nullopt;
  return resolved.get();
}

// Opens what is at a path beneath the folder, without following any link, for O_PATH.
UniqueFd FindBeneath(int folder, const std::string& rest) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(static_cast<int>(
      ::syscall(SYS_openat2, folder, rest.empty() ? "." : rest.c_str(), &how, sizeof how)));
}

// True if somebody has changed the path since it was resolved.
bool HasChanged(int error) {
  return error == ELOOP || error == ENOENT || error == ENOTDIR || error == EXDEV ||
         error == EAGAIN || error == EEXIST;
}

// `path`, resolved: the part behind the folder; nothing if it is not beneath it.
std::optional<std::string> RestOf(std::string_view path, std::string_view folder) {
  if (path == folder) return "";
  if (!path.starts_with(folder) || path[folder.size()] != '/') return std::nullopt;
  return std::string(path.substr(folder.size() + 1));
}

// True if the longest root of the resolved path is writable.
bool MayWrite(const std::vector<FileRoot>& roots, std::string_view path) {
  std::size_t longest = 0;
  bool writable = false;
  for (const FileRoot& root : roots) {
    const std::optional<std::string> folder = Resolve(root.there);
    if (!folder || !RestOf(path, *folder) || folder->size() < longest) continue;
    // Roots with one folder: all must be.
    writable = root.writable && (folder->size() > longest || writable);
    longest = folder->size();
  }
  return writable;
}

OpenedFile TryToOpen(const std::vector<FileRoot>& roots, const FileRoot& root,
                     const std::string& there, int flags) {
  const std::optional<std::string> folder = Resolve(root.there);
  if (!folder) return {UniqueFd(), errno};
  std::optional<std::string> resolved = Resolve(there);
  std::string created;
  if (!resolved) {
    const int error = errno;
    const std::size_t slash = there.rfind('/');
    created = there.substr(slash + 1);
    if (error != ENOENT || (flags & O_CREAT) == 0 || created.empty() || created == "." ||
        created == "..")
      return {UniqueFd(), error};
    resolved = Resolve(there.substr(0, slash));
    if (!resolved) return {UniqueFd(), errno};
  }
  const std::optional<std::string> rest = RestOf(*resolved, *folder);
  if (!rest) return {UniqueFd(), EXDEV};
  if ((flags & O_ACCMODE) != O_RDONLY && !MayWrite(roots, *resolved))
    return {UniqueFd(), kRootNotWritable};
  const UniqueFd top(::open(folder->c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!top.valid()) return {UniqueFd(), errno};
  const UniqueFd found = FindBeneath(top.get(), *rest);
  if (!found.valid()) return {UniqueFd(), errno};
  return created.empty() ? ReopenRegular(found, flags) : CreateRegular(found.get(), created, flags);
}

}  // namespace

OpenedFile OpenBeneath(const std::vector<FileRoot>& roots, const std::string& path, int flags) {
  const FileRoot* const root = FindFileRoot(roots, path);
  if (root == nullptr) return {UniqueFd(), EXDEV};
  const std::string there = root->PathThere(path);
  OpenedFile opened;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    opened = TryToOpen(roots, *root, there, flags);
    if (opened.fd.valid() || !HasChanged(opened.error)) break;
  }
  return opened;
}

}  // namespace cuspan::proxy
