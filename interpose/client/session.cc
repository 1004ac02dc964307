#include "interpose/client/session.h"

#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <initializer_list>
#include <utility>

#include "common/log.h"
#include "common/mutex.h"
#include "interpose/client/agent_connection.h"
#include "interpose/client/memory/addresses.h"

namespace cuspan {
namespace {

// The session of the process. Never destroyed: the program may call CUDA while it exits.
std::atomic<Session*> the_session{nullptr};
std::atomic<int> start_failure{CUDA_SUCCESS};
Mutex start_mutex;
// Created, and possibly not started yet.
Session* made_session CUSPAN_GUARDED_BY(start_mutex) = nullptr;

// After a fork the child has the parent's memory, but neither its threads nor its devices: CUDA
// defines the devices as unusable there. A session not started yet has neither.
void BeforeFork() CUSPAN_NO_THREAD_SAFETY_ANALYSIS { start_mutex.lock(); }
void AfterForkInParent() CUSPAN_NO_THREAD_SAFETY_ANALYSIS { start_mutex.unlock(); }
void AfterForkInChild() CUSPAN_NO_THREAD_SAFETY_ANALYSIS {
  if (the_session.exchange(nullptr) != nullptr) {
    start_failure.store(CUDA_ERROR_NOT_INITIALIZED);
  } else if (made_session != nullptr) {
    // Frees the session's addresses, still unused, for the child's own session.
    const AddressWindow& window = made_session->region().window();
    ::munmap(PointerTo(window.base), window.bytes);
  }
  made_session = nullptr;
  start_mutex.unlock();
}

}  // namespace

Session* Session::IfStarted() { return the_session.load(std::memory_order_acquire); }

Session* Session::Get(CUresult* result) {
  if (Session* session = IfStarted()) return session;
  const MutexLock lock(start_mutex);
  Session* const session = Make(result);
  the_session.store(session, std::memory_order_release);
  return session;
}

Session* Session::Prepare(CUresult* result) {
  const MutexLock lock(start_mutex);
  return Make(result);
}

// Requires start_mutex.
Session* Session::Make(CUresult* result) CUSPAN_NO_THREAD_SAFETY_ANALYSIS {
  if (made_session != nullptr) return made_session;
  *result = static_cast<CUresult>(start_failure.load());
  if (*result != CUDA_SUCCESS) return nullptr;
  Result<AgentConnection::Introduced> known = AgentConnection::Introduce();
  if (!known.ok()) {
    LogError("no devices: {}", known.status().message());
    *result = CUDA_ERROR_NO_DEVICE;
    start_failure.store(*result);
    return nullptr;
  }
  if (known->devices.empty()) {
    LogInfo("CUDA_VISIBLE_DEVICES {}",
            known->result == CUDA_ERROR_INVALID_DEVICE
                ? "names a device twice: this program sees no devices"
                : "selects no device of the run: this program sees none");
    *result = known->result != CUDA_SUCCESS ? known->result : CUDA_ERROR_NO_DEVICE;
    start_failure.store(*result);
    return nullptr;
  }
  return Begin(std::move(known->agent), std::move(known->bell), std::move(known->devices));
}

Session* Session::StartWith(std::unique_ptr<DeviceOpener> opener, Bell bell,
                            std::vector<DeviceDescription> devices) {
  const MutexLock lock(start_mutex);
  if (made_session != nullptr) return nullptr;
  Session* const session = Begin(std::move(opener), std::move(bell), std::move(devices));
  the_session.store(session, std::memory_order_release);
  return session;
}

Session* Session::Begin(std::unique_ptr<DeviceOpener> opener, Bell bell,
                        std::vector<DeviceDescription> devices) CUSPAN_NO_THREAD_SAFETY_ANALYSIS {
  static const int fork_handlers =
      ::pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  static_cast<void>(fork_handlers);
  made_session = new Session(std::move(opener), std::move(bell), std::move(devices));
  return made_session;
}

Session::Session(std::unique_ptr<DeviceOpener> opener, Bell bell,
                 std::vector<DeviceDescription> devices)
    : devices_(std::move(opener), std::move(bell), std::move(devices),
               {&common_, &region_, &managed_variables_, &peer_memory_,
                [this](const EventReached& reached) { events_.OnReached(reached); },
                [this](const ContextConnection& connection, const CommunicatorNotice& notice) {
                  communicators_.OnNotice(connection, notice);
                }}) {
  // Order of notification about ended contexts.
  for (ContextTable* const table : std::initializer_list<ContextTable*>{
           &streams_, &peer_memory_, &peer_copies_, &arrays_, &libraries_, &pools_, &graph_blocks_,
           &ipc_memory_, &events_, &virtual_memory_, &communicators_})
    devices_.AddTable(table);
}

}  // namespace cuspan
