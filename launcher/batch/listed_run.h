// A run inside a PBS or LSF job: it uses the nodes listed for the job, and starts agents with the
// batch system's launcher.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "launcher/batch/listed_job.h"
#include "launcher/host/environment.h"
#include "launcher/host/install_paths.h"
#include "launcher/run/cluster_options.h"

namespace cuspan {

// UseBatchJob (batch_job.h) in a PBS or LSF job. If the job's GPUs are unknown, logs that all GPUs
// the user can open on its nodes are used.
Status UseListedJob(const InstallPaths& paths, ClusterOptions& options, Environment& environment);

// The same with the lists already read. `own_name` is this host's name. Searches PATH for the
// launcher.
Status UseListedJob(const ListedJob& job, std::string_view own_name, const InstallPaths& paths,
                    ClusterOptions& options, Environment& environment);

// --- Between the launcher and cuspan-job-shell

// Nodes with their GPUs: "n1=0.1,n2". For n2, the GPUs come from the node's own environment.
std::string ListedNodesText(const std::vector<ListedNode>& nodes);
// Inverse of ListedNodesText. kInvalid for any other text.
Result<std::vector<ListedNode>> ParseListedNodes(std::string_view text);

// Shell commands preceding the agent's on the node. They set PATH and LD_LIBRARY_PATH of `own`, and
// make only the job's GPUs visible. With `tells`, they print a line if these GPUs are unknown.
std::string NodePrefix(const ListedNode& node, const Environment& own, bool tells);

// True if `launcher` belongs to a batch system.
bool BelongsToBatchSystem(std::string_view launcher);

// Command line for running the shell command `command` on a node. `launcher` is a batch system's
// launcher, or the words of a remote shell called like ssh.
std::vector<std::string> LauncherCommand(const std::vector<std::string>& launcher,
                                         const std::string& node, const std::string& command);

}  // namespace cuspan
