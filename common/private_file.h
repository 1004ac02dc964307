// Files in the user's cache folders, read and replaced as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan {

struct PrivateFile {
  UniqueFd file;
  std::uint64_t bytes = 0;
  std::time_t modified = 0;
};

// Opens a file of the folder for reading. Nothing unless it is a regular file of at most
// `most_bytes`, and only this user may write to it.
std::optional<PrivateFile> OpenPrivateFile(int folder, const std::string& name,
                                           std::uint64_t most_bytes);
// False if the file has fewer bytes left, or cannot be read.
bool ReadAll(int file, void* data, std::size_t bytes);

// Replaces the file `name` of the folder by one with these parts as its content. It is written as
// `fresh` and renamed: a reader finds all of one of the two. A killed process may leave `fresh`;
// the next call with this name removes it. kUnavailable with the system's reason.
Status ReplaceFile(int folder, const std::string& fresh, const std::string& name,
                   std::initializer_list<std::string_view> parts);

}  // namespace cuspan
