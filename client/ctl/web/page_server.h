// Serves the page, its files and the feed over HTTP to admitted browsers; read-only.
//
// Owner: the verb, until the process exits. Thread: one for each of at most kConnectionsMax
// connections; others wait in the backlog. Memory: 16 KiB for each request.
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

  // Returns the port; 0 chooses a free one.
  absl::StatusOr<int> Listen(const std::string& address, int port);
  // Serves forever; returns why it can no longer listen.
  std::string Serve(const Gate& gate);

 private:
  static constexpr std::ptrdiff_t kConnectionsMax = 24;  // More than viewers.

  Feed& feed_;
  asio::io_context io_;
  asio::ip::tcp::acceptor listener_{io_};
  std::counting_semaphore<kConnectionsMax> places_{kConnectionsMax};
};

}  // namespace mlxcomm::ctl
