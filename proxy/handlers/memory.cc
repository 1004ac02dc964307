#include "proxy/handlers/handlers.h"

namespace cuspan::proxy {
Status Handle(DeviceSession& session, const Origin& origin, const MemoryMap& op) {
  if (op.bytes == 0 || (!session.device.InWindow(op.address, op.bytes) &&
                        !session.device.InShared(op.address, op.bytes)))
    return Status::Invalid("mapping 0x{:x} + {} bytes: outside the window", op.address, op.bytes);
  session.worker.Run([&session, origin, op] {
    session.channel.Reply<MemoryMap>(
        origin.request, {session.faults.Check(session.mappings.Map(op.address, op.bytes))});
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const MemoryUnmap& op) {
  session.WhenDeviceDone([&session, origin, op](CUresult result, std::uint64_t) {
    session.worker.Run([&session, origin, op, result] {
      const CUresult unmapped = session.faults.Check(session.mappings.Unmap(op.address, op.bytes));
      session.channel.Reply<MemoryUnmap>(origin.request,
                                         {result == CUDA_SUCCESS ? unmapped : result});
    });
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const MemoryImport& op) {
  session.worker.Run([&session, origin, op] {
    session.channel.Reply<MemoryImport>(
        origin.request,
        {session.faults.Check(session.peers.Borrow(op.exchange, op.address, op.bytes, op.at))});
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const MemoryImportEnd& op) {
  session.WhenDeviceDone([&session, origin, op](CUresult, std::uint64_t) {
    session.worker.Run([&session, origin, op] {
      session.channel.Reply<MemoryImportEnd>(origin.request,
                                             {session.peers.Return(op.at, op.bytes)});
    });
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const PeerOpen& op) {
  session.worker.Run([&session, origin, op] {
    session.channel.Reply<PeerOpen>(origin.request,
                                    {session.peers.Open(op.exchange, op.ordinal, op.window)});
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const PeerMap& op) {
  session.worker.Run([&session, origin, op] {
    session.channel.Reply<PeerMap>(origin.request,
                                   {session.peers.Map(op.base, op.address, op.bytes)});
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const PeerUnmap& op) {
  session.WhenDeviceDone([&session, origin, op](CUresult, std::uint64_t) {
    session.worker.Run([&session, origin, op] {
      session.channel.Reply<PeerUnmap>(origin.request,
                                       {session.peers.Unmap(op.base, op.address, op.bytes)});
    });
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const PeerClose& op) {
  session.WhenDeviceDone([&session, origin, op](CUresult, std::uint64_t) {
    session.worker.Run([&session, origin, op] {
      session.channel.Reply<PeerClose>(origin.request, {session.peers.Close(op.base)});
    });
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const Fence&) {
  session.WhenDeviceDone([&session, origin](CUresult result, std::uint64_t) {
    if (result == CUDA_SUCCESS) session.channel.Post(FenceReached{origin.sequence});
  });
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const MemoryInfo&) {
  session.worker.Run([&session, origin] {
    std::size_t free = 0;
    std::size_t total = 0;
    const CUresult result = session.faults.Check(session.driver.cuMemGetInfo(&free, &total));
    session.channel.Reply<MemoryInfo>(origin.request, {result, free, total});
  });
  return Status::Ok();
}

}  // namespace cuspan::proxy
