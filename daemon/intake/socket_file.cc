#include "daemon/intake/socket_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "proto/queue/dial.h"

namespace mlxcomm::intake {
namespace {

// The path fits: Claim() has checked it.
sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

std::filesystem::path FolderOf(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? std::filesystem::path(".") : folder;
}

absl::Status Unfit(const std::string& what, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat(what, ": ", why));
}

}  // namespace

absl::Status SocketFile::Claim() {
  if (path_.empty() || path_.size() >= sizeof sockaddr_un{}.sun_path) {
    return absl::InvalidArgumentError(absl::StrCat("socket_path: \"", path_, "\" has ",
                                                   path_.size(), " bytes, expected 1 to ",
                                                   sizeof sockaddr_un{}.sun_path - 1));
  }
  absl::Status status = MakeFolder();
  if (status.ok()) status = CheckFolder();
  if (status.ok()) status = TakeLock();
  if (status.ok()) status = ClearPath();
  if (status.ok()) status = ReportPresence();
  if (!status.ok()) lock_.Reset();
  return status;
}

absl::Status SocketFile::MakeFolder() const {
  const std::filesystem::path folder = FolderOf(path_);
  std::error_code error;
  if (std::filesystem::exists(folder, error)) return absl::OkStatus();
  if (!error) std::filesystem::create_directories(FolderOf(folder.string()), error);
  if (error) return Unfit("the socket's folder " + folder.string(), error.message());
  const mode_t mode = all_users_ ? 0755 : 0700;
  if (::mkdir(folder.c_str(), mode) == 0 && ::chmod(folder.c_str(), mode) == 0) {
    return absl::OkStatus();
  }
  if (errno == EEXIST) return absl::OkStatus();  // Made by another daemon that is starting.
  return Unfit("the socket's folder " + folder.string(), std::strerror(errno));
}

// A user who may write to the folder, or who makes it first in /tmp, could put another socket
// there.
absl::Status SocketFile::CheckFolder() const {
  const std::string folder = FolderOf(path_).string();
  struct stat facts{};
  if (::stat(folder.c_str(), &facts) != 0) {
    return Unfit("the socket's folder " + folder, std::strerror(errno));
  }
  if (facts.st_uid != 0 && facts.st_uid != ::geteuid()) {
    return Unfit("the socket's folder " + folder,
                 absl::StrCat("it belongs to user ", facts.st_uid,
                              ", who could put another socket in this one's place: choose a "
                              "socket_path in a folder of user ",
                              ::geteuid(), " or of root"));
  }
  if (all_users_ && (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Unfit("the socket's folder " + folder,
                 "others may write to it, and all users connect to a socket there: remove "
                 "that permission (chmod go-w), or choose another socket_path");
  }
  if ((facts.st_mode & S_IWOTH) != 0 && (facts.st_mode & S_ISVTX) == 0) {
    return Unfit("the socket's folder " + folder,
                 "every user could put another socket in this one's place: remove their "
                 "permission (chmod o-w), or choose another socket_path");
  }
  return absl::OkStatus();
}

absl::Status SocketFile::TakeLock() {
  const std::string name = path_ + ".lock";
  lock_.Reset(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock_.valid()) return Unfit("the lock " + name, std::strerror(errno));
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  if (errno != EWOULDBLOCK) return Unfit("the lock " + name, std::strerror(errno));
  return absl::AlreadyExistsError(
      absl::StrCat("another mlxcommd is starting, running or draining at ", path_,
                   " (mlxcommctl status): stop it first, or give this one another socket_path"));
}

// A slow or stopped daemon still listens, so only a refused connection proves a socket stale. macOS
// also refuses when a backlog is full, but a daemon with a backlog here would hold the lock.
absl::Status SocketFile::ClearPath() const {
  struct stat facts{};
  if (::lstat(path_.c_str(), &facts) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return Unfit(path_, std::strerror(errno));
  }
  if (!S_ISSOCK(facts.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, " exists and is not a socket: remove it, or choose another socket_path"));
  }
  const sockaddr_un address = AddressOf(path_);
  const FileDescriptor probe(::socket(AF_UNIX, SOCK_STREAM, 0));
  ::fcntl(probe.get(), F_SETFL, O_NONBLOCK);  // Do not wait for a full backlog.
  const bool connected =
      ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (connected || errno == EAGAIN || errno == EINPROGRESS) {
    return absl::AlreadyExistsError(
        absl::StrCat("another mlxcommd answers at ", path_,
                     ": stop it first, or give this one another socket_path"));
  }
  if (errno == ENOENT) return absl::OkStatus();
  if (errno != ECONNREFUSED || ::unlink(path_.c_str()) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, " cannot be replaced (", std::strerror(errno), "): choose another socket_path"));
  }
  return absl::OkStatus();
}

// Created under another name, so that no other process can lock it first.
absl::Status SocketFile::ReportPresence() {
  const std::string name = queue::PresenceFile(path_);
  const std::string fresh = name + ".new";
  ::unlink(fresh.c_str());  // Left by a daemon that was killed here.
  presence_.Reset(::open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  const bool reported = presence_.valid() && ::flock(presence_.get(), LOCK_EX | LOCK_NB) == 0 &&
                        ::dprintf(presence_.get(), "%d\n", static_cast<int>(::getpid())) > 0 &&
                        ::fchmod(presence_.get(), all_users_ ? 0644 : 0600) == 0 &&
                        ::rename(fresh.c_str(), name.c_str()) == 0;
  if (reported) return absl::OkStatus();
  const int reason = errno;
  presence_.Reset();
  return Unfit(name, std::strerror(reason));
}

// No process can connect before listen(), so chmod may follow the bind; a umask would affect every
// thread.
absl::Status SocketFile::Bind(int socket) {
  const sockaddr_un address = AddressOf(path_);
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Unfit("cannot bind to " + path_, std::strerror(errno));
  }
  bound_ = true;
  return LetUsersIn();
}

absl::Status SocketFile::LetUsersIn() const {
  if (::chmod(path_.c_str(), all_users_ ? 0666 : 0600) == 0) return absl::OkStatus();
  return Unfit("cannot set who may use " + path_, std::strerror(errno));
}

absl::Status SocketFile::Adopt(ListenSocket& listen_socket) {
  sockaddr_un address{};
  socklen_t bytes = sizeof address;
  int listens = 0;
  socklen_t listens_bytes = sizeof listens;
  struct stat lock{}, named{};
  const bool is_socket = ::getsockname(listen_socket.socket.get(),
                                       reinterpret_cast<sockaddr*>(&address), &bytes) == 0 &&
                         address.sun_family == AF_UNIX &&
                         ::getsockopt(listen_socket.socket.get(), SOL_SOCKET, SO_ACCEPTCONN,
                                      &listens, &listens_bytes) == 0 &&
                         listens != 0;
  address.sun_path[sizeof address.sun_path - 1] = '\0';
  const bool is_ours = is_socket && path_ == address.sun_path;
  const bool has_lock = ::fstat(listen_socket.lock.get(), &lock) == 0 &&
                        ::stat((path_ + ".lock").c_str(), &named) == 0 &&
                        lock.st_dev == named.st_dev && lock.st_ino == named.st_ino;
  if (!is_ours || !has_lock) {
    if (is_socket && !is_ours) {  // socket_path has changed.
      ::unlink(address.sun_path);
      ::unlink(queue::PresenceFile(address.sun_path).c_str());
    }
    listen_socket = {};
    return absl::NotFoundError("it is not at this daemon's socket_path");
  }
  lock_ = std::move(listen_socket.lock);
  bound_ = true;
  const absl::Status status = LetUsersIn();
  return status.ok() ? ReportPresence() : status;
}

FileDescriptor SocketFile::HandOver() {
  bound_ = false;
  presence_.Reset();
  return std::move(lock_);
}

void SocketFile::Remove() {
  if (std::exchange(bound_, false)) ::unlink(path_.c_str());
  if (presence_.valid()) ::unlink(queue::PresenceFile(path_).c_str());
  presence_.Reset();
  lock_.Reset();
}

}  // namespace mlxcomm::intake
