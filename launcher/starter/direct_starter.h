// Starter of a head agent without mpirun: it is alone, or starts the worker agents itself by a
// remote shell.
#pragma once

#include <memory>

#include "launcher/starter/agent_command.h"
#include "launcher/starter/agent_starter.h"

namespace cuspan {

std::unique_ptr<AgentStarter> MakeDirectStarter(Plan plan, Environment environment,
                                                const AgentCommand& agent,
                                                const ClusterOptions& options);

}  // namespace cuspan
