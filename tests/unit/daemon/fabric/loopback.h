// Fabrics in one process, joined over loopback, for the tests of this folder: what each
// was told, messages and data between them, and cables that can be cut.
//
// Owner: a test. Thread: its own; fabrics on other io_contexts are turned there as well.
// Memory: what was told is kept.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/fabric/authentication.h"
#include "daemon/fabric/fabric.h"
#include "daemon/platform/machine.h"

namespace mlxcomm::fabric {

using Tcp = asio::ip::tcp;

// One daemon's fabric, and what it was told.
struct Node : FabricListener {
  explicit Node(asio::io_context& context, const std::string& name, std::uint8_t id,
                std::vector<std::string> connect = {}, std::uint8_t key = 7,
                const std::function<void(FabricOptions&)>& change = [](FabricOptions&) {})
      : io(context) {
    options.self.id.bytes[0] = id;
    options.self.name = name;
    options.self.software_version = "test";
    options.self.incarnation = RandomNumber();
    options.cluster = "test";
    options.key.assign(wire::kClusterKeyBytes, key);
    options.listen = {"127.0.0.1:0"};
    options.connect = std::move(connect);
    options.heartbeat_interval_ns = 20'000'000;
    options.reconnect_delay_max_ns = 50'000'000;
    options.greeting_timeout_ns = 500'000'000;
    change(options);
    auto created = Fabric::Create(io, options, *this);
    EXPECT_TRUE(created.ok()) << created.status();
    fabric = *std::move(created);
  }
  std::string address(std::size_t which = 0) const { return fabric->listening().at(which); }

  void OnNodeUp(const NodeIdentity& node) override { up.push_back(node); }
  void OnNodeLost(const NodeId&, const absl::Status& why) override {
    lost.push_back(std::string(why.message()));
  }
  void OnControl(const NodeId& node, std::span<const std::byte> message) override {
    control.emplace_back(reinterpret_cast<const char*>(message.data()), message.size());
    control_from[node].push_back(control.back());
  }
  void OnEager(const NodeId&, const wire::FrameHeader& header,
               std::span<const std::byte> payload) override {
    eager.emplace_back(header.number, payload.size());
  }
  void OnGrant(const NodeId&, const wire::FrameHeader&) override { ++grants; }
  void OnCredit(const NodeId&, const wire::FrameHeader&) override {}
  void OnDataReceived(const NodeId&, const wire::FrameHeader& header) override {
    data_bytes += header.payload_bytes;
  }
  void OnDataReleased(const NodeId&, std::uint64_t cookie) override { ++released[cookie]; }
  void OnWithdrawn(const NodeId&, const OperationKey&) override { ++withdrawn; }

  asio::io_context& io;
  FabricOptions options;
  std::unique_ptr<Fabric> fabric;
  std::vector<NodeIdentity> up;
  std::vector<std::string> lost;
  std::vector<std::string> control;
  std::map<NodeId, std::vector<std::string>> control_from;
  std::vector<std::pair<std::uint64_t, std::size_t>> eager;
  int grants = 0;
  int withdrawn = 0;
  std::uint64_t data_bytes = 0;
  std::map<std::uint64_t, int> released;
};

class FabricTest : public testing::Test {
 protected:
  // Turns until the condition holds; a minute is "never".
  bool RunUntil(const std::vector<Node*>& nodes, const std::function<bool()>& condition) {
    const std::uint64_t deadline = platform::MonotonicNow() + 60'000'000'000;
    while (!condition()) {
      if (platform::MonotonicNow() > deadline) return false;
      io.restart();
      io.poll();
      for (Node* const node : nodes) {
        if (&node->io != &io) node->io.restart(), node->io.poll();
        node->fabric->Poll();
        // As the engine does when it has nothing to do: acknowledgements go out.
        if (idle) node->fabric->PrepareToSleep(), node->fabric->WakeUp();
      }
    }
    return true;
  }
  absl::Status SendText(Node& from, const Node& to, const std::string& text) {
    wire::FrameHeader header;
    header.type = wire::FrameType::kControl;
    header.payload_bytes = static_cast<std::uint32_t>(text.size());
    return from.fabric->Send(to.options.self.id, header,
                             reinterpret_cast<const std::byte*>(text.data()), 0);
  }
  // In chunks, from one to the other's posted receive.
  void SendChunks(Node& from, Node& to, const std::vector<std::byte>& source,
                  std::vector<std::byte>& target, std::uint64_t chunk = 256 * 1024,
                  const std::function<void(PostedReceive&)>& change = [](PostedReceive&) {}) {
    PostedReceive receive;
    receive.key.number = 5;
    receive.bytes = source.size();
    receive.destination = target.data();
    change(receive);
    ASSERT_TRUE(to.fabric->PostReceive(from.options.self.id, receive).ok());
    for (std::uint64_t offset = 0; offset < source.size(); offset += chunk) {
      wire::FrameHeader header;
      header.type = wire::FrameType::kData;
      header.number = 5;
      header.offset = offset;
      header.payload_bytes =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk, source.size() - offset));
      ASSERT_TRUE(from.fabric->Send(to.options.self.id, header, source.data() + offset, 9).ok());
    }
  }
  asio::io_context io;
  bool idle = false;  // Turns are those of an engine that would sleep.
};

// A cable between two fabrics that a test can cut: forwards bytes both ways. While it is
// out, whoever dials hears nothing.
class Cable {
 public:
  Cable(asio::io_context& io, const std::string& to, bool in = true)
      : io_(io), acceptor_(io, {asio::ip::address_v4::loopback(), 0}), in_(in) {
    to_ = {asio::ip::make_address(to.substr(0, to.rfind(':'))),
           static_cast<std::uint16_t>(std::stoi(to.substr(to.rfind(':') + 1)))};
    Accept();
  }
  std::string address() const {
    return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }
  std::uint64_t carried = 0;
  void PlugIn() {
    in_ = true;
    mute_ = false;
  }
  // Half-open: what whoever was dialed says is lost, and the rest passes, ends as well.
  // Whoever dials hears nothing.
  void Mute() {
    in_ = false;
    mute_ = true;
  }
  void PullOut() {
    in_ = false;
    Cut();
  }
  void Cut() {
    for (auto& [near, far] : pairs_) {
      asio::error_code ignored;
      near->close(ignored);
      far->close(ignored);
    }
  }

 private:
  using Socket = std::shared_ptr<Tcp::socket>;
  void Accept() {
    auto near = std::make_shared<Tcp::socket>(io_);
    acceptor_.async_accept(*near, [this, near](const asio::error_code& error) {
      if (error) return;
      auto far = std::make_shared<Tcp::socket>(io_);
      if (!in_) {
        pairs_.emplace_back(near, far);
        return Accept();
      }
      asio::error_code failed;
      far->connect(to_, failed);
      pairs_.emplace_back(near, far);
      Forward(near, far, false);
      Forward(far, near, true);
      Accept();
    });
  }
  void Forward(const Socket& from, const Socket& to, bool of_dialed) {
    auto buffer = std::make_shared<std::vector<char>>(16 * 1024);
    from->async_read_some(asio::buffer(*buffer), [=, this](const asio::error_code& error,
                                                          std::size_t bytes) {
      asio::error_code failed = error;
      if (!failed && !(mute_ && of_dialed)) asio::write(*to, asio::buffer(buffer->data(), bytes), failed);
      if (failed) {
        asio::error_code ignored;
        from->close(ignored);
        to->close(ignored);
        return;
      }
      carried += bytes;
      Forward(from, to, of_dialed);
    });
  }
  asio::io_context& io_;
  Tcp::acceptor acceptor_;
  Tcp::endpoint to_;
  bool in_;
  bool mute_ = false;
  std::vector<std::pair<Socket, Socket>> pairs_;
};

}  // namespace mlxcomm::fabric
