// A run inside a job of PBS or LSF: on the nodes that the job lists, its agents started by what the
// batch system has for that.
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

// UseBatchJob (batch_job.h) in a job of PBS or LSF. Where nothing tells which GPUs the job has, a
// line says that all are used that its nodes let the user open.
Status UseListedJob(const InstallPaths& paths, ClusterOptions& options, Environment& environment);

// The same with what the lists say. `own_name` is this host's. Looks in PATH for the launcher.
Status UseListedJob(const ListedJob& job, std::string_view own_name, const InstallPaths& paths,
                    ClusterOptions& options, Environment& environment);

// --- Between the launcher and cuspan-job-shell

// How it gets onto a node with its GPUs: "n1=0.1,n2", the latter with those that the node's own
// environment says.
std::string ListedNodesText(const std::vector<ListedNode>& nodes);
// kInvalid for what that does not write.
Result<std::vector<ListedNode>> ParseListedNodes(std::string_view text);

// What a shell on the node does before it runs the agent: it gets the PATH and LD_LIBRARY_PATH of
// `own`, and sees the node's GPUs of the job alone. With `tells` it says so where nothing says
// which these are.
std::string NodePrefix(const ListedNode& node, const Environment& own, bool tells);

// Whether `launcher` is one of a batch system's.
bool IsOfBatchSystem(std::string_view launcher);

// The command line that has a launcher, one of a batch system's or words that are called as ssh is,
// run `command`, which a shell reads, on a node.
std::vector<std::string> LauncherCommand(const std::vector<std::string>& launcher,
                                         const std::string& node, const std::string& command);

}  // namespace cuspan
