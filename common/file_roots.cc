#include "common/file_roots.h"

#include "common/settings.h"

namespace cuspan {
namespace {

// The folder without slashes at its end; empty unless it is absolute and below "/".
std::string FolderOf(std::string_view text) {
  while (text.ends_with('/')) text.remove_suffix(1);
  return std::string(text.starts_with('/') ? text : std::string_view());
}

}  // namespace

Result<std::vector<FileRoot>> ParseFileRoots(std::string_view text) {
  std::vector<FileRoot> roots;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    text.remove_prefix(comma == text.npos ? text.size() : comma + 1);
    const std::string_view whole = part;
    FileRoot root;
    root.writable = part.ends_with(":rw");
    if (root.writable) part.remove_suffix(3);
    const std::size_t equal = part.find('=');
    root.named = FolderOf(part.substr(0, equal));
    root.there = equal == part.npos ? root.named : FolderOf(part.substr(equal + 1));
    if (root.named.empty() || root.there.empty())
      return Status::Invalid(
          "{} {}: use DIR, DIR=THERE or DIR:rw, with absolute paths of directories below /",
          settings::kFileRoot.option, whole);
    for (const FileRoot& other : roots)
      if (other.named == root.named)
        return Status::Invalid("{} {}: {} is named twice", settings::kFileRoot.option, whole,
                               root.named);
    roots.push_back(std::move(root));
  }
  return roots;
}

std::string PlainPath(std::string_view path) {
  std::string plain;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    path.remove_prefix(slash == path.npos ? path.size() : slash + 1);
    if (!part.empty() && part != ".") plain += '/' + std::string(part);
  }
  return plain;
}

const FileRoot* FindFileRoot(const std::vector<FileRoot>& roots, std::string_view path) {
  const FileRoot* longest = nullptr;
  for (const FileRoot& root : roots)
    if (path.size() > root.named.size() && path.starts_with(root.named) &&
        path[root.named.size()] == '/' &&
        (longest == nullptr || root.named.size() > longest->named.size()))
      longest = &root;
  return longest;
}

}  // namespace cuspan
