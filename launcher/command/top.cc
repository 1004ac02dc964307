#include "launcher/command/top.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/log.h"
#include "launcher/command/devices.h"
#include "launcher/command/top_table.h"
#include "launcher/starter/looking.h"

namespace cuspan {
namespace {

// The window's size may change between calls. If it is unknown, it stays 0.
Status Draw(const RunReady& found) {
  winsize size{};
  ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  const std::string screen = TopScreen(found, size.ws_row, size.ws_col);
  if (std::fputs(screen.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    return Status::Unavailable("standard output: {}", std::strerror(errno));
  return Status::Ok();
}

// Returns only on an error.
Status DrawAgainAndAgain(const TopOptions& options, const InheritedSignals& signals) {
  CUSPAN_ASSIGN_OR_RETURN(const std::unique_ptr<AgentCluster> agents,
                          StartLooking(options.cluster, signals));
  CUSPAN_ASSIGN_OR_RETURN(RunReady found, agents->WaitReady());
  for (;;) {
    CUSPAN_RETURN_IF_ERROR(Draw(found));
    CUSPAN_ASSIGN_OR_RETURN(found, agents->QueryAgain(options.every));
  }
}

}  // namespace

int Top(const TopOptions& options, const InheritedSignals& signals) {
  if (options.json || options.once || ::isatty(STDOUT_FILENO) == 0)
    return PrintFound(options.cluster, signals, options.json ? TopJson : TopTable);
  LogError("{}", DrawAgainAndAgain(options, signals).message());
  return kExitOwnFailure;
}

}  // namespace cuspan
