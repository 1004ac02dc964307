// Measurement of the raw programs: plain messages of MPI or UCX between pairs of ranks, used like
// in agents. Receives are posted, completion is tested, and no call blocks.
#pragma once

#include <cstddef>

namespace cuspan::bench {

// Ranks of an MPI job, started by MPI for both transports. A failure ends the job. Threads: one.
class RawLink {
 public:
  virtual ~RawLink() = default;

  // At most one message per direction is in flight in a slot. Slots are below `slots` of Prepare.
  virtual void Prepare(std::size_t slots) = 0;
  virtual void Send(int peer, std::size_t slot, const char* data, std::size_t bytes) = 0;
  virtual void Receive(int peer, std::size_t slot, char* data, std::size_t bytes) = 0;
  // Also true if none was started.
  virtual bool SendDone(std::size_t slot) = 0;
  virtual bool ReceiveDone(std::size_t slot) = 0;
  // Makes progress on messages in flight, also for the other side.
  virtual void Progress() = 0;
};

// Barrier of all ranks. It continues to make progress: a sender may need this from the receiver,
// and vice versa.
void AwaitAll(RawLink& link);

// The main function of a raw program, between MPI_Init and MPI_Finalize. Its arguments select the
// measurement:
//   PROGRAM ping BYTES [ROUNDS]                   two ranks; prints
//     ping BYTES = ONE_WAY_US
//   PROGRAM window|duplex BYTES WINDOW TOTAL      an even number; the first half of the ranks is
//     paired with the second; window: one way; duplex: both at once, the sum; prints
//     window BYTES WINDOW = GBPS MEMORY_GBPS      of all pairs, medians of several repetitions
// GBPS uses one buffer per message in flight; the processor's caches hold these. MEMORY_GBPS uses
// separate memory for each message of a repetition, like the bytes of a copy.
int MeasureRaw(RawLink& link, int argc, char** argv);

}  // namespace cuspan::bench
