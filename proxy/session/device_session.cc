#include "proxy/session/device_session.h"

#include <utility>

namespace cuspan::proxy {

DeviceSession::DeviceSession(const Driver& driver, const Device& device, Channel& channel,
                             std::optional<ExchangeSocket> exchange, JoinInbox* joins,
                             SubmitterThreads submitters)
    : driver_(driver),
      device_(device),
      channel_(channel),
      joins_(joins),
      faults_(driver, channel),
      streams_(driver, channel, faults_, worker_, completer_),
      objects_(driver, worker_),
      bulk_(driver, channel, faults_, streams_, completer_, timeline_),
      files_(driver, device, channel, faults_, streams_, bulk_, completer_, timeline_),
      memory_(driver, device, objects_.variables, std::move(exchange),
              [this](std::uint64_t number, UniqueFd fd) {
                return files_.Share(number, std::move(fd));
              }),
      collectives_(device, channel, faults_, streams_.queues(), driver.software),
      sharing_(*this),
      worker_(device),
      completer_(device, driver, channel, faults_),
      timeline_(driver, streams_.timing_events(), completer_),
      submitters_(device, driver, faults_, streams_, submitters) {}

Result<std::shared_ptr<Stream>> DeviceSession::FindStream(std::uint64_t handle) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, streams_.FindDelegated(handle));
  submitters_.Await(*stream);
  return stream;
}

bool DeviceSession::MayGoOn() {
  return streams_.MayGoOn() || bulk_.MayGoOn() || files_.copies().MayGoOn() ||
         collectives_.HasWork() || sharing_.MayGoOn();
}

void DeviceSession::GoOn() {
  streams_.GoOn();
  bulk_.GoOn();
  if (files_.copies().MayGoOn()) files_.copies().GoOn();
  if (collectives_.HasWork()) collectives_.Progress();
  sharing_.GoOn();
}

void DeviceSession::DropAll() {
  streams_.DropAll();
  bulk_.transfers().Forget();
  if (ShareGate* const gate = sharing_.gate()) gate->Lost();
}

}  // namespace cuspan::proxy
