// Serves the page, its files and the feed by HTTP, to those whom the gate admits. Nothing that is asked for
// changes anything.
//
// Owner: the verb, until the process ends. Thread: one for each connection, as many as there may be;
// further ones wait at the system. Memory: 16 KiB for each request.
#pragma once

#include <cstddef>
#include <semaphore>
#include <string>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include "absl/status/statusor.h"

#include "client/ctl/web/feed.h"
#include "client/ctl/web/gate.h"

namespace mlxcomm::ctl {

class PageServer {
 public:
  explicit PageServer(Feed& feed) : feed_(feed) {}

  // The port, which is any that is free where 0 is asked for.
  absl::StatusOr<int> Listen(const std::string& address, int port);
  // In a thread of its own. For ever, unless it can listen there no more: then it says why.
  std::string Serve(const Gate& gate);

 private:
  static constexpr std::ptrdiff_t kConnectionsMax = 24;  // More than there may be viewers.

  Feed& feed_;
  asio::io_context io_;
  asio::ip::tcp::acceptor listener_{io_};
  std::counting_semaphore<kConnectionsMax> places_{kConnectionsMax};
};

}  // namespace mlxcomm::ctl
