#include "launcher/host/own_host.h"
#include "launcher/starter/mpi_launcher.h"
#ifdef CUSPAN_MPICH
#include "launcher/starter/hydra.h"
#else
#include "launcher/starter/open_mpi.h"
#endif

namespace cuspan {

const MpiLauncher& OwnMpiLauncher() {
#ifdef CUSPAN_MPICH
  static const Hydra launcher(OwnHostName());
#else
  static const OpenMpi launcher;
#endif
  return launcher;
}

}  // namespace cuspan
