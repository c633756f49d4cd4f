// Ends the loop's sleep when a socket can be read, or written if that is asked for: for
// rails that the loop drives.
//
//   (closed) ──Open──▶ open ──Arm, before the sleep──▶ armed ──readable──▶ open, ready
//      ▲──────── Close: of this socket nothing is heard any more ────────────┘
//
// A watch that is armed says so when the socket was readable before, too; so a rail that arms
// it last and then sleeps misses nothing. The handler of one that was closed comes later
// and finds that its number is no longer the watch's.
//
// Owner: TcpFabric has the pool, a rail the watch that it took from there. Thread: the loop's.
// Memory: a watch is used again, and its handlers' memory is the thread's (platform/handler_memory.h).
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

namespace mlxcomm::rail {

class SocketWatch {
 public:
  explicit SocketWatch(asio::io_context& io) : descriptor_(io) {}
  ~SocketWatch() { Close(); }

  // The socket stays its owner's. False: the system does not watch it.
  bool Open(int socket);
  // Before the socket is closed, or read by somebody else.
  void Close();
  bool is_open() const { return open_; }
  void Arm();
  bool is_armed() const { return armed_; }
  // Until it can be written once.
  void ArmForWriting();
  // It could be read, or written; once for each.
  bool TakeReady() { return std::exchange(ready_, false); }

 private:
  friend class SocketWatches;
  struct Heard;
  void Wait(asio::posix::descriptor_base::wait_type what, bool& armed);

  asio::posix::stream_descriptor descriptor_;
  std::uint64_t number_ = 0;  // Of the opening.
  bool open_ = false;
  bool armed_ = false;
  bool armed_for_writing_ = false;
  bool ready_ = false;
  bool retired_ = false;
};

class SocketWatches {
 public:
  struct GiveBack {
    SocketWatches* pool = nullptr;
    void operator()(SocketWatch* watch) const { pool->TakeBack(*watch); }
  };
  using Handle = std::unique_ptr<SocketWatch, GiveBack>;

  explicit SocketWatches(asio::io_context& io) : io_(io) {}
  // To be given back before the pool goes.
  Handle Take();
  // The io_context will not run any more: all are closed, and none opens again.
  void Retire();

 private:
  void TakeBack(SocketWatch& watch);

  asio::io_context& io_;
  std::vector<std::unique_ptr<SocketWatch>> all_;
  std::vector<SocketWatch*> free_;
  bool retired_ = false;
};

}  // namespace mlxcomm::rail
