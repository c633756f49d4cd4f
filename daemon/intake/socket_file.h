// The file of a listening Unix socket: checks its folder, and replaces stale sockets.
//
//   Claim(): the folder is safe ─▶ the lock is ours ─▶ no process answers at the path
//   Bind() ─▶ (the acceptor listens) ─▶ Remove(), or HandOver() ─▶ (exec) ─▶ Adopt()
//
// An empty lock file next to the socket ("PATH.lock"), held until Remove() or the end of the
// process, keeps two daemons that start at once apart. "PATH.running" holds the daemon's pid: it
// shows clients that a busy daemon is running, and log rotation which process to signal.
//
// Owner: Acceptor. Thread: the loop's.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::intake {

// Kept open by a daemon for its successor: clients that connect in the meantime wait in the
// socket's backlog, and no other daemon can claim the path.
struct ListenSocket {
  FileDescriptor socket;  // Invalid if there is none.
  FileDescriptor lock;
};

class SocketFile {
 public:
  SocketFile(std::string path, bool all_users) : path_(std::move(path)), all_users_(all_users) {}
  ~SocketFile() { Remove(); }

  // Removes a socket without a listener, and makes a missing folder. ALREADY_EXISTS: another daemon
  // has the path. FAILED_PRECONDITION: the path cannot be used; the message has the remedy.
  absl::Status Claim();
  // Binds `socket` to the path, for this user only (0600) or for all users (0666).
  absl::Status Bind(int socket);
  // Replaces Claim() and Bind() if the previous program did both. NOT_FOUND: the socket has another
  // path; it is closed and its files are removed.
  absl::Status Adopt(ListenSocket& listen_socket);
  // Removes the socket that Bind() made, and releases the lock.
  void Remove();
  // Leaves the socket's file in place and returns the lock.
  FileDescriptor HandOver();

 private:
  absl::Status MakeFolder() const;
  absl::Status CheckFolder() const;
  absl::Status TakeLock();
  absl::Status ClearPath() const;
  absl::Status ReportPresence();
  absl::Status LetUsersIn() const;

  std::string path_;
  bool all_users_;
  FileDescriptor lock_;
  FileDescriptor presence_;
  bool bound_ = false;
};

}  // namespace mlxcomm::intake
