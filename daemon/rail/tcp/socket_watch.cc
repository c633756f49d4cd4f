#include "daemon/rail/tcp/socket_watch.h"

#include "daemon/platform/handler_memory.h"

namespace mlxcomm::rail {
// Uses handler memory, because watches are armed while payload moves.
struct SocketWatch::Handler : platform::UsesHandlerMemory {
  SocketWatch& watch;
  std::uint64_t number;
  bool& armed;

  Handler(SocketWatch& its, bool& its_armed) : watch(its), number(its.number_), armed(its_armed) {}
  void operator()(const asio::error_code&) const {
    if (!watch.open_ || number != watch.number_) return;
    armed = false;
    watch.ready_ = true;  // Also after an error; the reader finds it.
  }
};

void SocketWatch::Wait(asio::posix::descriptor_base::wait_type what, bool& armed) {
  if (open_ && !std::exchange(armed, true)) descriptor_.async_wait(what, Handler(*this, armed));
}

void SocketWatch::Arm() { Wait(asio::posix::descriptor_base::wait_read, armed_); }

void SocketWatch::ArmForWriting() {
  Wait(asio::posix::descriptor_base::wait_write, armed_for_writing_);
}

bool SocketWatch::Open(int socket) {
  if (retired_) return false;
  asio::error_code error;
  descriptor_.assign(socket, error);
  if (error) return false;
  open_ = true;
  ++number_;
  return true;
}

void SocketWatch::Close() {
  armed_ = false;
  armed_for_writing_ = false;
  ready_ = false;
  if (std::exchange(open_, false)) descriptor_.release();
}

SocketWatches::Handle SocketWatches::Take() {
  if (free_.empty()) {
    all_.push_back(std::make_unique<SocketWatch>(io_));
    free_.push_back(all_.back().get());
    free_.reserve(all_.size());
    all_.back()->retired_ = retired_;
  }
  SocketWatch* const watch = free_.back();
  free_.pop_back();
  return Handle(watch, GiveBack{this});
}

void SocketWatches::TakeBack(SocketWatch& watch) {
  watch.Close();
  free_.push_back(&watch);
}

void SocketWatches::Retire() {
  retired_ = true;
  for (const auto& watch : all_) {
    watch->Close();
    watch->retired_ = true;
  }
}

}  // namespace mlxcomm::rail
