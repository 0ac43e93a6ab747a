# packaging/release.py fills in the version, the addresses and the checksums.
class Quartet < Formula
  desc "Durable database for clients of Redis, DynamoDB, FaunaDB and FoundationDB"
  homepage "https://quartet.example"
  version "VERSION"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "ADDRESS/VERSION/quartet-VERSION-darwin-arm64.tar.gz"
      sha256 "SHA256_OF_darwin_arm64"
    end
    on_intel do
      url "ADDRESS/VERSION/quartet-VERSION-darwin-x64.tar.gz"
      sha256 "SHA256_OF_darwin_x64"
    end
  end
  on_linux do
    on_arm do
      url "ADDRESS/VERSION/quartet-VERSION-linux-arm64.tar.gz"
      sha256 "SHA256_OF_linux_arm64"
    end
    on_intel do
      url "ADDRESS/VERSION/quartet-VERSION-linux-x64.tar.gz"
      sha256 "SHA256_OF_linux_x64"
    end
  end

  def install
    bin.install "quartet"
    # In a folder of its own, so that FoundationDB's library may be there too.
    (lib/"quartet").install Dir["libfdb_c.*"]
    include.install "foundationdb" => "quartet/foundationdb"
  end

  service do
    run [opt_bin/"quartet", "serve", "--data", var/"lib/quartet"]
    keep_alive true
    log_path var/"log/quartet.log"
    error_log_path var/"log/quartet.log"
  end

  test do
    port = free_port
    server = spawn bin/"quartet", "serve", "--dev", "--data", "memory", "--listen-redis", "127.0.0.1:#{port}",
                   "--listen-http", "off", "--listen-dynamodb", "off", "--listen-fauna", "off", "--listen-keyvalue", "off"
    sleep 2
    assert_match "PONG", pipe_output("nc -w 1 127.0.0.1 #{port}", "PING\r\n")
  ensure
    Process.kill "TERM", server
  end
end
