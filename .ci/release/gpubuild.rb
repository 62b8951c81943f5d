class Gpubuild < Formula
  desc "Build Rust GPU code with cargo, and prove that it ran on the GPU"
  homepage "@ADDRESS@"
  version "@VERSION@"
  license "MIT"
  on_linux do
    on_intel do
      @x86_64-unknown-linux-musl@
    end
    on_arm do
      @aarch64-unknown-linux-musl@
    end
  end
  on_macos do
    on_intel do
      @x86_64-apple-darwin@
    end
    on_arm do
      @aarch64-apple-darwin@
    end
  end
  def install
    bin.install "gpubuild"
    bin.install_symlink "gpubuild" => "cargo-gpubuild"
    man1.install "man/gpubuild.1"
    bash_completion.install "completions/gpubuild.bash" => "gpubuild"
    zsh_completion.install "completions/_gpubuild"
    fish_completion.install "completions/gpubuild.fish"
  end
  test do
    system bin/"gpubuild", "version"
  end
end
