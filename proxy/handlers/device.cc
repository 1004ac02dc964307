#include "proxy/handlers/handlers.h"
#include "proxy/handlers/on_worker.h"

namespace cuspan::proxy {

Status Handle(DeviceSession& session, const Origin& origin, const DeviceSynchronize&) {
  session.streams().WhenAllDone(
      [&session, request = origin.request](CUresult result, std::uint64_t chunks) {
        // The last completion may be one without a waiting client.
        if (result == CUDA_SUCCESS) session.completer().FlushOutput();
        session.channel().Reply<DeviceSynchronize>(request, {result, chunks});
      });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const Fence&) {
  session.streams().WhenAllDone([&session, origin](CUresult result, std::uint64_t) {
    if (result == CUDA_SUCCESS) session.channel().Post(FenceReached{origin.sequence});
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin&, const AskAlive&) {
  session.channel().Post(ProxyAlive{});
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const MemoryInfo&) {
  const auto answer = [&session, origin] {
    std::size_t free = 0;
    std::size_t total = 0;
    const CUresult result = session.faults().Check(MemoryInfoOf(session.device(), &free, &total));
    Respond<MemoryInfo>(session, origin, MemoryInfo::Reply{result, free, total});
  };
  // Normally runs after earlier allocations. If these wait for free memory, the query must not wait
  // for them.
  if (session.sharing().gate() != nullptr && !session.sharing().gate()->MemoryIsThere())
    session.worker().RunFirst(answer);
  else
    session.worker().Run(answer);
  return Status::Ok();
}

}  // namespace cuspan::proxy
