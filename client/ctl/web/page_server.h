// Serves the page, its files and the feed by HTTP, to those whom the gate admits. Nothing that is asked for
// changes anything.
//
// Owner: the verb, until the process ends. Thread: one for each connection, as many as there may be;
// further ones wait at the system. Memory: the library's.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "client/ctl/web/feed.h"
#include "client/ctl/web/gate.h"

namespace mlxcomm::ctl {

class PageServer {
 public:
  explicit PageServer(Feed& feed);
  ~PageServer();

  // The port, which is any that is free where 0 is asked for.
  absl::StatusOr<int> Listen(const std::string& address, int port);
  // In a thread of its own. For ever, unless it can listen there no more: then it says why.
  std::string Serve(const Gate& gate);

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace mlxcomm::ctl
