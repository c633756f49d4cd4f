#include "tests/unit/daemon/fabric/loopback.h"

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <utility>

#include "daemon/fabric/authentication.h"
#include "daemon/platform/machine.h"
#include "tests/unit/daemon/fabric/some_keys.h"
#include "tests/unit/looks.h"
#include "tests/unit/never.h"

namespace mlxcomm::fabric {

using Tcp = asio::ip::tcp;

Node::Node(asio::io_context& context, const std::string& name, std::uint8_t id,
           std::vector<std::string> connect, std::uint8_t key,
           const std::function<void(link::FabricOptions&)>& change,
           const SideRailsMaker& side_rails)
    : io(context) {
  options.self.id.bytes[0] = id;
  options.self.name = name;
  options.self.software_version = "test";
  options.self.incarnation = rail::RandomNumber();
  options.cluster = "test";
  options.keys = KeysOf(key);
  options.listen = {"127.0.0.1:0"};
  options.connect = std::move(connect);
  options.heartbeat_interval_ns = 20'000'000;
  options.reconnect_delay_max_ns = 50'000'000;
  options.greeting_timeout_ns = 500'000'000;
  // Both kinds must work together: a cluster may have machines of either.
  const bool is_even = options.self.id.bytes[0] % 2 == 0;
  options.scheduling = queue::SchedulingPolicy::Choose(
      is_even ? queue::Scheduling::kFewCores : queue::Scheduling::kManyCores, 2);
  change(options);
  links = std::make_unique<Links>(options, *this);
  auto created = TcpFabric::Create(io, options, *links, side_rails);
  EXPECT_TRUE(created.ok()) << created.status();
  fabric = *std::move(created);
}

Node::~Node() {
  fabric->Stop();
  links.reset();
}

bool FabricTest::RunUntil(const std::vector<Node*>& nodes, const std::function<bool()>& condition) {
  const std::uint64_t deadline = platform::MonotonicNow() + kNeverNs;
  Looks looks;
  while (!condition()) {
    if (platform::MonotonicNow() > deadline) return false;
    io.restart();
    std::size_t done = io.poll();
    for (Node* const node : nodes) {
      if (&node->io != &io) node->io.restart(), done += node->io.poll();
      done += node->fabric->Poll();
      // Like an idle loop: acknowledgements go out.
      if (idle) node->fabric->PrepareToSleep(), node->fabric->WakeUp();
    }
    looks.Rest(done > 0);
  }
  return true;
}

absl::Status FabricTest::SendText(Node& from, const Node& to, const std::string& text) {
  wire::FrameHeader header;
  header.type = wire::FrameType::kControl;
  header.payload_bytes = static_cast<std::uint32_t>(text.size());
  return from.links->Send(to.options.self.id, header,
                          reinterpret_cast<const std::byte*>(text.data()), 0);
}

void FabricTest::SendChunks(Node& from, Node& to, std::span<const std::byte> source,
                            std::vector<std::byte>& target, std::uint64_t chunk,
                            const std::function<void(rail::PostedReceive&)>& change) {
  rail::PostedReceive receive;
  receive.key.number = 5;
  receive.bytes = source.size();
  receive.destination = target.data();
  change(receive);
  ASSERT_TRUE(to.links->PostReceive(from.options.self.id, receive).ok());
  for (std::uint64_t offset = 0; offset < source.size(); offset += chunk) {
    wire::FrameHeader header;
    header.type = wire::FrameType::kData;
    header.number = 5;
    header.offset = offset;
    header.payload_bytes =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk, source.size() - offset));
    ASSERT_TRUE(from.links->Send(to.options.self.id, header, source.data() + offset, 9).ok());
  }
}

class LoopbackCable::Forwarder {
 public:
  Forwarder(asio::io_context& io, const std::string& to, bool in)
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
  void Mute() {
    in_ = false;
    mute_ = true;
  }
  void PullOut() {
    in_ = false;
    for (auto& [near, far] : pairs_) Close(near, far);
  }
  void Garble() { garbles_ = true; }

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
  // Does not block: the reader may be on this thread.
  void Forward(const Socket& from, const Socket& to, bool of_dialed) {
    auto buffer = std::make_shared<std::vector<char>>(16 * 1024);
    from->async_read_some(
        asio::buffer(*buffer), [=, this](const asio::error_code& error, std::size_t bytes) {
          if (error) return Close(from, to);
          if (std::exchange(garbles_, false)) (*buffer)[bytes / 2] ^= 1;
          if (mute_ && of_dialed) return Carried(from, to, of_dialed, bytes);
          asio::async_write(*to, asio::buffer(buffer->data(), bytes),
                            [this, from, to, of_dialed, buffer](const asio::error_code& failed,
                                                                std::size_t written) {
                              if (failed) return Close(from, to);
                              Carried(from, to, of_dialed, written);
                            });
        });
  }
  void Carried(const Socket& from, const Socket& to, bool of_dialed, std::size_t bytes) {
    carried += bytes;
    Forward(from, to, of_dialed);
  }
  static void Close(const Socket& one, const Socket& other) {
    asio::error_code ignored;
    one->close(ignored);
    other->close(ignored);
  }
  asio::io_context& io_;
  Tcp::acceptor acceptor_;
  Tcp::endpoint to_;
  bool in_;
  bool mute_ = false;
  bool garbles_ = false;
  std::vector<std::pair<Socket, Socket>> pairs_;
};

LoopbackCable::LoopbackCable(asio::io_context& io, const std::string& to, bool in)
    : forwarder_(std::make_unique<Forwarder>(io, to, in)) {}
LoopbackCable::~LoopbackCable() = default;
std::string LoopbackCable::address() const { return forwarder_->address(); }
std::uint64_t LoopbackCable::carried() const { return forwarder_->carried; }
void LoopbackCable::PlugIn() { forwarder_->PlugIn(); }
void LoopbackCable::Mute() { forwarder_->Mute(); }
void LoopbackCable::PullOut() { forwarder_->PullOut(); }
void LoopbackCable::Garble() { forwarder_->Garble(); }

}  // namespace mlxcomm::fabric
