#include "client/ctl/web/page_server.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/read_until.hpp>
#include <asio/write.hpp>

#include "absl/strings/str_cat.h"

#include "client/ctl/cli/embedded.h"

namespace mlxcomm::ctl {
namespace {

using asio::ip::tcp;

constexpr std::size_t kHeadBytesMax = 16 * 1024;
constexpr auto kHeadPatience = std::chrono::seconds(10);
constexpr auto kWritePatience = std::chrono::seconds(30);
constexpr auto kEndPatience = std::chrono::seconds(1);
constexpr std::size_t kIgnoredBytesMax = 64 * 1024;
// The pause after accept() failed, for example for lack of descriptors.
constexpr auto kAcceptPause = std::chrono::milliseconds(200);
constexpr std::uint64_t kAliveNs = 2'000'000'000;
constexpr const char* kHeaders[][2] = {
    {"Connection", "close"},
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cache-Control", "no-store"},
};

// One request and its answer. Each wait has a deadline; only the head is stored.
class Connection {
 public:
  tcp::socket& socket() { return socket_; }

  // Returns the head with the end of its last line; "" if it is too long or too late.
  std::string_view ReadHead() {
    constexpr std::string_view kEnd = "\r\n\r\n";
    const bool is_whole = Await(kHeadPatience, [&](auto handler) {
      asio::async_read_until(socket_, asio::dynamic_buffer(head_, kHeadBytesMax), kEnd, handler);
    });
    if (!is_whole) return {};
    return std::string_view(head_).substr(0, head_.find(kEnd) + 2);
  }
  bool has_asked() const { return !head_.empty(); }

  // Returns false if the client no longer reads.
  bool Write(std::string_view bytes) {
    return Await(kWritePatience, [&](auto handler) {
      asio::async_write(socket_, asio::buffer(bytes.data(), bytes.size()), handler);
    });
  }

  // Reads the rest, because closing with unread bytes would discard the answer.
  void End() {
    asio::error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    std::string bytes(kIgnoredBytesMax, '\0');
    Await(kEndPatience,
          [&](auto handler) { asio::async_read(socket_, asio::buffer(bytes), handler); });
  }

 private:
  template <class Start>
  bool Await(std::chrono::seconds patience, const Start& start) {
    bool done = false;
    start([&done](const asio::error_code& error, std::size_t) { done = !error; });
    io_.restart();
    io_.run_for(patience);
    asio::error_code ignored;
    if (!io_.stopped()) socket_.cancel(ignored);
    io_.run();
    return done;
  }

  asio::io_context io_{1};
  tcp::socket socket_{io_};
  std::string head_;
};

struct Answer {
  const char* status;
  std::string_view type;
  std::string_view body;
  bool sets_cookie = false;
};

constexpr char kForbidden[] = "403 Forbidden";
constexpr std::string_view kText = "text/plain; charset=utf-8";
constexpr Answer kNotUnderstood = {
    "400 Bad Request", kText,
    "Expected a GET request with a head of at most 16 KiB within 10 s.\n"};
constexpr Answer kNothingChanges = {"405 Method Not Allowed", kText,
                                    "Nothing can be changed here.\n"};
constexpr Answer kTooManyViewers = {"503 Service Unavailable", kText,
                                    "Too many open pages: close one.\n"};
constexpr Answer kFeed = {"200 OK", "text/event-stream", {}};  // Ends with the connection.

// The page's files, below the gate's path.
std::optional<Answer> FileAt(std::string_view name) {
  static constexpr std::string_view kScript = "text/javascript; charset=utf-8";
  static const struct {
    std::string_view name, bytes, type;
  } kFiles[] = {
      {"", kPageHtml, "text/html; charset=utf-8"},
      {"page.css", kPageCss, "text/css; charset=utf-8"},
      {"curves.js", kPageCurvesJs, kScript},
      {"jobs.js", kPageJobsJs, kScript},
      {"page.js", kPageJs, kScript},
      {"tables.js", kPageTablesJs, kScript},
      {"topology.js", kPageTopologyJs, kScript},
      {"words.js", kPageWordsJs, kScript},
  };
  for (const auto& file : kFiles)
    if (file.name == name) return Answer{"200 OK", file.type, file.bytes};
  // Browsers always request an icon.
  if (name == "favicon.ico") return Answer{"204 No Content", {}, {}};
  return {};
}

Answer AnswerOf(const Gate& gate, const Visit& visit) {
  switch (Admit(gate, visit)) {
    case Admission::kAdmitted: break;
    case Admission::kWrongHost:
      return {"421 Misdirected Request", kText,
              "This host name is not allowed: use the URL that mlxcommctl web printed.\n"};
    case Admission::kOtherSite: return {kForbidden, kText, "Only the page itself may load this.\n"};
    case Admission::kNoToken:
      return {kForbidden, kText,
              "The token is missing or wrong: open the URL that mlxcommctl web printed.\n"};
  }
  if (!visit.path.starts_with(gate.path)) return {"404 Not Found", kText, "Nothing is here.\n"};
  const std::string_view name = visit.path.substr(gate.path.size());
  if (name == "feed") return kFeed;
  std::optional<Answer> answer = FileAt(name);
  if (!answer) return {"404 Not Found", kText, "Nothing is here.\n"};
  answer->sets_cookie = visit.opens_page && !visit.token.empty();
  return *answer;
}

std::string HeadOf(const Gate& gate, const Answer& answer) {
  std::string out = absl::StrCat("HTTP/1.1 ", answer.status, "\r\n");
  const auto add = [&out](std::string_view name, std::string_view value) {
    if (!value.empty()) out.append(name).append(": ").append(value).append("\r\n");
  };
  for (const auto& [name, value] : kHeaders) add(name, value);
  add("Content-Type", answer.type);
  if (!answer.body.empty()) add("Content-Length", absl::StrCat(answer.body.size()));
  if (answer.sets_cookie) {
    add("Set-Cookie", absl::StrCat(CookieName(gate.port), "=", gate.token, "; Path=", gate.path,
                                   "; HttpOnly; SameSite=Strict"));
  }
  return out + "\r\n";
}

void Follow(Feed& feed, Feed::Viewer& viewer, Connection& connection, std::string head) {
  for (std::string text = std::move(head); connection.Write(text);) {
    text = feed.Next(viewer, kAliveNs);
    // Lets both sides notice a lost connection.
    if (text.empty()) text = ServerSentEvent("alive", "{}");
  }
  feed.Leave();
}

void Converse(Feed& feed, const Gate& gate, Connection& connection) {
  const std::string_view head = connection.ReadHead();
  if (!connection.has_asked()) return;
  const std::optional<Visit> visit = ReadVisit(gate, head);
  const bool is_head = visit && visit->method == "HEAD";
  Answer answer = kNotUnderstood;
  if (visit) answer = is_head || visit->method == "GET" ? AnswerOf(gate, *visit) : kNothingChanges;
  if (answer.type == kFeed.type && !is_head) {
    if (std::optional<Feed::Viewer> viewer = feed.Enter())
      return Follow(feed, *viewer, connection, HeadOf(gate, answer));
    answer = kTooManyViewers;
  }
  connection.Write(HeadOf(gate, answer).append(is_head ? "" : answer.body));
  connection.End();
}

}  // namespace

absl::StatusOr<int> PageServer::Listen(const std::string& address, int port) {
  asio::error_code error;
  const auto found =
      tcp::resolver(io_).resolve(address, absl::StrCat(port), tcp::resolver::passive, error);
  if (error) return absl::NotFoundError(error.message());
  for (const auto& one : found) {
    listener_ = tcp::acceptor(io_);
    listener_.open(one.endpoint().protocol(), error);
    if (!error) listener_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) listener_.bind(one.endpoint(), error);
    if (!error) listener_.listen(tcp::acceptor::max_listen_connections, error);
    if (!error) return listener_.local_endpoint(error).port();
  }
  return absl::UnavailableError(error.message());
}

std::string PageServer::Serve(const Gate& gate) {
  for (;;) {
    places_.acquire();
    asio::error_code error;
    try {
      auto connection = std::make_unique<Connection>();
      listener_.accept(connection->socket(), error);
      if (!error) {
        ::fcntl(connection->socket().native_handle(), F_SETFD, FD_CLOEXEC);
        std::thread([this, gate, connection = std::move(connection)]() mutable {
          Converse(feed_, gate, *connection);
          connection.reset();
          places_.release();
        }).detach();
        continue;
      }
    } catch (const std::system_error&) {  // No descriptors or threads left.
      error = asio::error::no_descriptors;
    }
    places_.release();
    const int why = error.value();
    const bool passes =
        why == EINTR || why == EMFILE || why == ENFILE || why == ENOBUFS || why == ENOMEM;
    if (!passes) listener_.close(error);
    std::this_thread::sleep_for(kAcceptPause);
    if (passes) continue;
    const absl::StatusOr<int> port = Listen(gate.bind, gate.port);
    if (!port.ok()) return std::string(port.status().message());
  }
}

}  // namespace mlxcomm::ctl
