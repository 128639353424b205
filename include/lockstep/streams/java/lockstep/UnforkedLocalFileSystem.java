package lockstep;

import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, but that it starts no process for each file and writes no checksums.
 *
 * Without Hadoop's native library LocalFileSystem runs chmod for every file and every checksum file
 * it makes; the driver's umask gives the same rights. It stays a LocalFileSystem: RocksDB's
 * snapshots are copied by that class only (FileSystem.copyFromLocalFile).
 */
public class UnforkedLocalFileSystem extends LocalFileSystem {

    public UnforkedLocalFileSystem() {
        super(new UnforkedRawLocalFileSystem());
        setWriteChecksum(false);
        setVerifyChecksum(false);
    }
}

class UnforkedRawLocalFileSystem extends RawLocalFileSystem {

    public void setPermission(Path path, FsPermission permission) {
        // As the umask has it.
    }
}
