#include "client/ctl/web/page_server.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <queue>
#include <thread>
#include <utility>

#include <httplib.h>

#include "absl/strings/str_cat.h"

#include "client/ctl/cli/embedded.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::size_t kConnectionsMax = 24;  // More than there may be viewers.
// After connections could not be taken; the system may lack what it needs for a while.
constexpr auto kUntilListeningAgain = std::chrono::milliseconds(200);
constexpr std::uint64_t kSignOfLifeNs = 2'000'000'000;
constexpr const char* kHeaders[][2] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cache-Control", "no-store"},
};

// Threads for connections: the loop that accepts one more than there may be waits for one to end.
class Connections {
 public:
  Connections() {
    for (std::size_t i = 0; i < kConnectionsMax; ++i) std::thread([this] { Work(); }).detach();
  }

  void Take(std::function<void()> connection) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_ < kConnectionsMax; });
    ++open_;
    waiting_.push(std::move(connection));
    changed_.notify_all();
  }

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !waiting_.empty(); });
      const std::function<void()> serve = std::move(waiting_.front());
      waiting_.pop();
      lock.unlock();
      serve();
      lock.lock();
      --open_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<std::function<void()>> waiting_;
  std::size_t open_ = 0;
};

// In place of the library's own, which takes connections without end. They outlive this: the
// library waits for its end when it can accept no more, and feeds that are followed have none.
class BoundedQueue final : public httplib::TaskQueue {
  // It differs between its releases: void, or whether the connection was taken.
  using Taken = decltype(std::declval<httplib::TaskQueue&>().enqueue(nullptr));

 public:
  explicit BoundedQueue(Connections& connections) : connections_(connections) {}

  Taken enqueue(std::function<void()> connection) override {
    connections_.Take(std::move(connection));
    return Taken(true);
  }
  void shutdown() override {}

 private:
  Connections& connections_;
};

// Empty: it is an address here, or the name of one.
std::string WhyNoAddress(const std::string& address) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.c_str(), nullptr, &wanted, &found);
  if (error != 0) return ::gai_strerror(error);
  ::freeaddrinfo(found);
  return {};
}

void Refuse(httplib::Response& response, int status, const char* text) {
  response.status = status;
  response.set_content(text, "text/plain; charset=utf-8");
}

void Refuse(httplib::Response& response, Admission why) {
  switch (why) {
    case Admission::kAdmitted: return;
    case Admission::kWrongHost:
      return Refuse(response, 421,
                    "This is not a name of mlxcommctl web: use the URL that it has printed.\n");
    case Admission::kOtherSite:
      return Refuse(response, 403, "Only the page itself may ask for this.\n");
    case Admission::kNoToken:
      return Refuse(
          response, 403,
          "The token is missing or wrong: open the URL that mlxcommctl web has printed.\n");
  }
}

}  // namespace

class PageServer::Server {
 public:
  explicit Server(Feed& feed) : feed_(feed) {
    http_.new_task_queue = [this] { return new BoundedQueue(connections_); };
    // The library's own options let another process listen at the same port, too.
    http_.set_socket_options([](socket_t listener) {
      const int yes = 1;
      ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    http_.set_keep_alive_timeout(2);
    http_.set_read_timeout(5);
    http_.set_write_timeout(5);
    http_.set_payload_max_length(1024);
    http_.set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          return Guard(request, response) ? httplib::Server::HandlerResponse::Unhandled
                                          : httplib::Server::HandlerResponse::Handled;
        });
  }

  absl::StatusOr<int> Listen(const std::string& address, int port) {
    if (std::string why = WhyNoAddress(address); !why.empty()) return absl::NotFoundError(why);
    errno = 0;  // The library says no more than that it has failed.
    if (port == 0)
      port = http_.bind_to_any_port(address);
    else if (!http_.bind_to_port(address, port))
      port = -1;
    if (port > 0) return port;
    return absl::UnavailableError(errno != 0 ? std::strerror(errno) : "no reason is known");
  }

  std::string Serve(const Gate& gate) {
    gate_ = gate;
    AddPages();
    for (;;) {
      // It ends at any error of accept() but a lack of descriptors: a connection that its other end has taken
      // back is one, on macOS. Open connections stay.
      http_.listen_after_bind();
      http_.stop();  // Newer releases of it do not bind again else.
      std::this_thread::sleep_for(kUntilListeningAgain);
      const absl::StatusOr<int> port = Listen(gate_.bind, gate_.port);
      if (!port.ok()) return std::string(port.status().message());
    }
  }

 private:
  void AddPages() {
    http_.Get(gate_.path, [this](const httplib::Request& request, httplib::Response& response) {
      if (!request.get_param_value("t").empty()) {
        response.set_header("Set-Cookie",
                            absl::StrCat(CookieName(gate_.port), "=", gate_.token,
                                         "; Path=", gate_.path, "; HttpOnly; SameSite=Strict"));
      }
      response.set_content(kPageHtml.data(), kPageHtml.size(), "text/html; charset=utf-8");
    });
    static constexpr char kScript[] = "text/javascript; charset=utf-8";
    AddFile("page.css", kPageCss, "text/css; charset=utf-8");
    AddFile("curves.js", kPageCurvesJs, kScript);
    AddFile("jobs.js", kPageJobsJs, kScript);
    AddFile("page.js", kPageJs, kScript);
    AddFile("tables.js", kPageTablesJs, kScript);
    AddFile("topology.js", kPageTopologyJs, kScript);
    AddFile("words.js", kPageWordsJs, kScript);
    http_.Get(gate_.path + "favicon.ico", [](const httplib::Request&, httplib::Response& response) {
      response.status = 204;  // Browsers ask for one in any case: for this, as the page names it.
    });
    http_.Get(gate_.path + "feed", [this](const httplib::Request&, httplib::Response& response) {
      StreamFeed(response);
    });
  }

  // False: it has been answered.
  bool Guard(const httplib::Request& request, httplib::Response& response) const {
    for (const auto& [name, value] : kHeaders) response.set_header(name, value);
    if (request.method != "GET" && request.method != "HEAD") {
      response.set_header("Connection", "close");  // What it sends besides is not read.
      Refuse(response, 405, "Nothing can be changed here.\n");
      return false;
    }
    const std::string host = request.get_header_value("Host");
    const std::string cookies = request.get_header_value("Cookie");
    const std::string token = request.get_param_value("t");
    const std::string fetch_site = request.get_header_value("Sec-Fetch-Site");
    const Admission admission =
        Admit(gate_, {host, cookies, token, fetch_site, request.path == gate_.path});
    Refuse(response, admission);
    return admission == Admission::kAdmitted;
  }

  void AddFile(const char* name, std::string_view bytes, const char* type) {
    http_.Get(gate_.path + name,
              [bytes, type](const httplib::Request&, httplib::Response& response) {
                response.set_content(bytes.data(), bytes.size(), type);
              });
  }

  void StreamFeed(httplib::Response& response) {
    const std::optional<Feed::Viewer> viewer = feed_.Enter();
    if (!viewer) return Refuse(response, 503, "Too many browsers are looking: close a page.\n");
    response.set_chunked_content_provider(
        "text/event-stream",
        [this, viewer = *viewer](std::size_t, httplib::DataSink& sink) mutable {
          std::string text = feed_.Next(viewer, kSignOfLifeNs);
          // Both sides see by it whether the other is still there.
          if (text.empty()) text = ServerSentEvent("alive", "{}");
          return sink.write(text.data(), text.size());
        },
        [this](bool) { feed_.Leave(); });
  }

  Feed& feed_;
  Gate gate_;
  Connections connections_;
  httplib::Server http_;
};

PageServer::PageServer(Feed& feed) : server_(std::make_unique<Server>(feed)) {}
PageServer::~PageServer() = default;

absl::StatusOr<int> PageServer::Listen(const std::string& address, int port) {
  return server_->Listen(address, port);
}
std::string PageServer::Serve(const Gate& gate) { return server_->Serve(gate); }

}  // namespace mlxcomm::ctl
