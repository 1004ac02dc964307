// Starter for agents as MPI ranks: an mpirun.
#pragma once

#include <memory>

#include "launcher/starter/agent_command.h"
#include "launcher/starter/agent_starter.h"

namespace cuspan {

Result<std::unique_ptr<AgentStarter>> MakeMpirunStarter(Plan plan, Environment environment,
                                                        const AgentCommand& agent,
                                                        const ClusterOptions& options);

}  // namespace cuspan
