#include "daemon/rail/tcp/socket_watch.h"

#include "daemon/platform/handler_memory.h"

namespace mlxcomm::rail {

// Uses handler memory, because watches are armed while payload moves.
struct SocketWatch::Handler : platform::UsesHandlerMemory {
  std::shared_ptr<State> state;
  std::uint64_t number;
  bool State::* armed;

  Handler(std::shared_ptr<State> of, bool State::* its_armed)
      : state(std::move(of)), number(state->number), armed(its_armed) {}
  void operator()(const asio::error_code&) const {
    if (number != state->number) return;
    (*state).*armed = false;
    state->ready = true;  // Also after an error; the reader finds it.
  }
};

void SocketWatch::Wait(asio::posix::descriptor_base::wait_type what, bool State::* armed) {
  if (is_open() && !std::exchange((*state_).*armed, true)) {
    descriptor_.async_wait(what, Handler(state_, armed));
  }
}

bool SocketWatch::Open(int socket) {
  if (*retired_) return false;
  asio::error_code error;
  descriptor_.assign(socket, error);
  return !error;
}

void SocketWatch::Close() {
  *state_ = {.number = state_->number + 1};
  if (descriptor_.is_open()) descriptor_.release();
}

}  // namespace mlxcomm::rail
