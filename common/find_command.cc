#include "common/find_command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/settings.h"

namespace cuspan {
namespace {

Status CheckExecutable(const std::string& path) {
  struct stat information {};
  if (::stat(path.c_str(), &information) != 0) {
    if (errno == ENOENT || errno == ENOTDIR)
      return Status::NotFound("{}: {}", path, std::strerror(errno));
    return Status::Refused("{}: {}", path, std::strerror(errno));
  }
  if (S_ISDIR(information.st_mode)) return Status::Refused("{} is a directory", path);
  if (::access(path.c_str(), X_OK) != 0)
    return Status::Refused("{}: {}", path, std::strerror(errno));
  return Status::Ok();
}

}  // namespace

Result<std::string> FindCommand(const std::string& command, std::string_view search_path) {
  if (command.empty()) return Status::NotFound("'': no command");
  if (command.find('/') != std::string::npos) {
    CUSPAN_RETURN_IF_ERROR(CheckExecutable(command));
    return command;
  }
  Status best = Status::NotFound("{}: command not found", command);
  for (std::size_t start = 0; start <= search_path.size();) {
    const std::size_t end = std::min(search_path.find(':', start), search_path.size());
    const std::string folder(search_path.substr(start, end - start));
    start = end + 1;
    // Folders without search permission are skipped, as shells do.
    if (!folder.empty() && ::access(folder.c_str(), X_OK) != 0) continue;
    const std::string path = (folder.empty() ? "." : folder) + "/" + command;
    const Status status = CheckExecutable(path);
    if (status.ok()) return path;
    if (status.code() == StatusCode::kRefused && best.code() == StatusCode::kNotFound)
      best = status;
  }
  return best;
}

Result<std::string> FindMpsControl() {
  const char* const path = std::getenv("PATH");
  const std::string folders = path == nullptr || *path == '\0' ? "" : std::string(path) + ":";
  return FindCommand(SettingText(settings::kMpsControl), folders + "/usr/bin");
}

}  // namespace cuspan
