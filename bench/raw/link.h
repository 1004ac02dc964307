// What the raw programs measure: plain messages of MPI or UCX between pairs of ranks, as agents use
// them: posted receives, tests, no blocking call.
#pragma once

#include <cstddef>

namespace cuspan::bench {

// The ranks of an MPI job, which MPI starts and holds together in both cases. One thread. A
// failure ends the job.
class RawLink {
 public:
  virtual ~RawLink() = default;

  // At most one message each way is under way in a slot, below `slots` of Prepare.
  virtual void Prepare(std::size_t slots) = 0;
  virtual void Send(int peer, std::size_t slot, const char* data, std::size_t bytes) = 0;
  virtual void Receive(int peer, std::size_t slot, char* data, std::size_t bytes) = 0;
  // True too where nothing was begun.
  virtual bool SendDone(std::size_t slot) = 0;
  virtual bool ReceiveDone(std::size_t slot) = 0;
  // Moves on what is under way, also for the other side.
  virtual void Progress() = 0;
};

// All ranks come here before one leaves. Goes on with what is under way: a sender may need the
// receiver's end for that, and the other way round.
void AwaitAll(RawLink& link);

// main of such a program, between MPI_Init and MPI_Finalize: what it was called with decides.
//   PROGRAM ping BYTES [ROUNDS]                   two ranks; prints
//     ping BYTES = ONE_WAY_US
//   PROGRAM window|duplex BYTES WINDOW TOTAL      an even number; the first half of the ranks is
//     paired with the second; window: one way; duplex: both at once, the sum; prints
//     window BYTES WINDOW = GBPS MEMORY_GBPS      of all pairs, medians of several repetitions
// GBPS is with as many buffers as are under way, which the processor's caches hold; MEMORY_GBPS
// with each message of a repetition in memory of its own, as a copy's bytes are.
int MeasureRaw(RawLink& link, int argc, char** argv);

}  // namespace cuspan::bench
