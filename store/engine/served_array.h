// An array's file, served to kernels through a mailbox.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "common/status.h"
#include "store/engine/line_server.h"
#include "store/engine/mailbox.h"
#include "store/engine/served_file.h"

namespace cuspan::store {

class ServedArray {
 public:
  // Begins. Results as of LineServer::Add.
  static Result<std::unique_ptr<ServedArray>> Begin(std::shared_ptr<LineServer> server,
                                                    std::shared_ptr<Mailbox> mailbox,
                                                    std::uint16_t array,
                                                    std::unique_ptr<ServedFile> file) {
    CUSPAN_RETURN_IF_ERROR(server->Add(*mailbox, array, *file));
    return std::unique_ptr<ServedArray>(
        new ServedArray(std::move(server), std::move(mailbox), array, std::move(file)));
  }
  // No kernel asks any more. Waits for running kernels if memory is page-locked; the context is
  // current then.
  ~ServedArray() { server_->Remove(*mailbox_, array_); }
  ServedArray(const ServedArray&) = delete;

  const Mailbox& mailbox() const { return *mailbox_; }
  ServedFile& file() { return *file_; }

 private:
  ServedArray(std::shared_ptr<LineServer> server, std::shared_ptr<Mailbox> mailbox,
              std::uint16_t array, std::unique_ptr<ServedFile> file)
      : server_(std::move(server)),
        mailbox_(std::move(mailbox)),
        array_(array),
        file_(std::move(file)) {}

  const std::shared_ptr<LineServer> server_;
  const std::shared_ptr<Mailbox> mailbox_;
  const std::uint16_t array_;
  const std::unique_ptr<ServedFile> file_;
};

// Mailboxes by numbers, each until its last array ends. Threads: one at a time.
class Mailboxes {
 public:
  struct Own {
    std::shared_ptr<Mailbox> operator()(std::unique_ptr<Mailbox> made) const { return made; }
  };
  // That of this number, made if there is none. kInvalid: it has another shape. share(unique_ptr) →
  // shared_ptr: its owner decides how it ends.
  template <typename Share = Own>
  Result<std::shared_ptr<Mailbox>> Get(std::uint64_t number, const EngineContext& context,
                                       const MailboxShape& shape, Share&& share = Own()) {
    std::weak_ptr<Mailbox>& known = mailboxes_[number];
    std::shared_ptr<Mailbox> mailbox = known.lock();
    if (mailbox != nullptr) {
      if (mailbox->shape() != shape)
        return Status::Invalid("mailbox {} was made for other lines or another device", number);
      return mailbox;
    }
    std::erase_if(mailboxes_, [&](const auto& entry) {
      return entry.first != number && entry.second.expired();
    });
    Result<std::unique_ptr<Mailbox>> made = Mailbox::Make(context, shape);
    if (!made.ok()) {
      mailboxes_.erase(number);
      return made.status();
    }
    mailbox = share(std::move(*made));
    mailboxes_[number] = mailbox;
    return mailbox;
  }

 private:
  std::map<std::uint64_t, std::weak_ptr<Mailbox>> mailboxes_;
};

}  // namespace cuspan::store
