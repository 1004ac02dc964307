#include "bench/common/command.h"

#include <fstream>

#include "common/log.h"

namespace cuspan::bench {

void AddDeviceOption(CLI::App& app, std::string& device) {
  app.add_option("--device", device, "cuda, soft, or auto: cuda where it works")
      ->check(CLI::IsMember({"auto", "cuda", "soft"}));
}

void AddTransportOption(CLI::App& app, std::string& transport) {
  app.add_option("--transport", transport, "of MPI: tcp, shm, ucx, or auto")
      ->check(CLI::IsMember({"auto", "tcp", "shm", "ucx"}));
}

void AddResultsOption(CLI::App& app, const std::string& name, std::string& path) {
  app.add_option(name, path, "writes the results to this file, too");
}

Status WriteFile(const std::string& path, const std::string& text) {
  if (path.empty()) return Status::Ok();
  std::ofstream file(path);
  file << text;
  file.close();
  return file ? Status::Ok() : Status::Invalid("{} cannot be written", path);
}

Status MakeFiles(std::initializer_list<std::string> paths) {
  for (const std::string& path : paths) CUSPAN_RETURN_IF_ERROR(WriteFile(path, ""));
  return Status::Ok();
}

int ExitStatusOf(const Status& status) {
  if (status.ok()) return 0;
  LogError("{}", status.message());
  return 125;
}

}  // namespace cuspan::bench
